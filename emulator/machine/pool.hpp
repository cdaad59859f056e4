#pragma once
// Recycled objects of one type. A run of the emulator frees everything that it made, and the next
// schedule takes it again, so the steady state allocates nothing. The memory comes from the given
// resource: the process's heap, or the segment that the rank processes share.

#include <cstddef>
#include <memory_resource>
#include <new>
#include <utility>

namespace ringfence::machine {

template <class T>
class Pool {
 public:
  explicit Pool(std::pmr::memory_resource* memory) : memory_(memory) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    while (chunks_ != nullptr) {
      Chunk* next = chunks_->next;
      memory_->deallocate(chunks_, sizeof(Chunk), alignof(Chunk));
      chunks_ = next;
    }
  }

  // The object is value-initialised. Whoever takes one gives it back before the pool dies.
  template <class... Args>
  T* take(Args&&... args) {
    if (free_ == nullptr) grow();
    Node* n = free_;
    free_ = n->next;
    ++live_;
    return ::new (static_cast<void*>(n->storage)) T{std::forward<Args>(args)...};
  }
  void give(T* object) {
    object->~T();
    Node* n = reinterpret_cast<Node*>(object);
    n->next = free_;
    free_ = n;
    --live_;
  }
  std::size_t live() const { return live_; }

 private:
  union Node {
    Node* next;
    alignas(T) std::byte storage[sizeof(T)];
  };
  static constexpr std::size_t kPerChunk = sizeof(Node) >= 1024 ? 16 : 16384 / sizeof(Node);
  struct Chunk {
    Chunk* next;
    Node nodes[kPerChunk];
  };
  void grow() {
    auto* c = static_cast<Chunk*>(memory_->allocate(sizeof(Chunk), alignof(Chunk)));
    c->next = chunks_;
    chunks_ = c;
    for (std::size_t i = kPerChunk; i-- > 0;) {
      c->nodes[i].next = free_;
      free_ = &c->nodes[i];
    }
  }

  std::pmr::memory_resource* memory_;
  Chunk* chunks_ = nullptr;
  Node* free_ = nullptr;
  std::size_t live_ = 0;
};

}  // namespace ringfence::machine

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
    while (first_ != nullptr) {
      Chunk* next = first_->next;
      memory_->deallocate(first_, sizeof(Chunk), alignof(Chunk));
      first_ = next;
    }
  }

  // The object is value-initialised. Whoever takes one gives it back, or resets the pool.
  template <class... Args>
  T* take(Args&&... args) {
    Node* n = free_;
    if (n != nullptr) {
      free_ = n->next;
    } else {
      if (used_ == kPerChunk) next_chunk();
      n = &current_->nodes[used_++];
    }
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
  // Takes all objects back at once, without destroying them: what they own is given back with the
  // pools that it came from. The next run then finds its objects in the order of its memory.
  void reset() {
    free_ = nullptr;
    current_ = nullptr;
    used_ = kPerChunk;
    live_ = 0;
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
  void next_chunk() {
    Chunk*& next = current_ == nullptr ? first_ : current_->next;
    if (next == nullptr) {
      next = static_cast<Chunk*>(memory_->allocate(sizeof(Chunk), alignof(Chunk)));
      next->next = nullptr;
    }
    current_ = next;
    used_ = 0;
  }

  std::pmr::memory_resource* memory_;
  Chunk* first_ = nullptr;
  Chunk* current_ = nullptr;      // of its nodes the first used_ have been taken since the reset
  std::size_t used_ = kPerChunk;  // full: the next one is due
  Node* free_ = nullptr;
  std::size_t live_ = 0;
};

}  // namespace ringfence::machine

#pragma once
// Internal to the machine: an array of zeros, of which a large one takes the memory that is
// touched.
//
// A region has an element of some arrays for each of its lines, and a kernel may touch few lines of
// a large region. So the large arrays of a sparse region are mappings of their own, which take
// pages with the first write, and not memory of the machine's resource. Where that resource is
// shared by rank processes the mapping is too: a fork inherits it, so it has to be made before.

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <memory_resource>
#include <new>
#include <type_traits>

namespace ringfence::machine {

template <class T>
class LazyArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit LazyArray(std::pmr::memory_resource* memory) : memory_(memory) {}
  LazyArray(const LazyArray&) = delete;
  LazyArray& operator=(const LazyArray&) = delete;
  ~LazyArray() {
    if (data_ == nullptr) return;
    if (mapped_) {
      munmap(data_, size_ * sizeof(T));
    } else {
      memory_->deallocate(data_, size_ * sizeof(T), alignof(T));
    }
  }

  // Once, while it is empty. Throws std::bad_alloc.
  void make(std::size_t size, bool sparse) {
    if (size == 0) return;
    const std::size_t bytes = size * sizeof(T);
    void* at = nullptr;
    if (sparse) {
      const bool own = memory_->is_equal(*std::pmr::new_delete_resource());
      at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                MAP_ANONYMOUS | MAP_NORESERVE | (own ? MAP_PRIVATE : MAP_SHARED), -1, 0);
      if (at == MAP_FAILED) throw std::bad_alloc();
    } else {
      at = memory_->allocate(bytes, alignof(T));
      std::memset(at, 0, bytes);
    }
    data_ = static_cast<T*>(at);
    size_ = size;
    mapped_ = sparse;
  }

  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::pmr::memory_resource* memory_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
};

}  // namespace ringfence::machine

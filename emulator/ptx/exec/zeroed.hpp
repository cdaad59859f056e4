#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace ringfence::ptx {

/// An array whose elements are zero bytes at first, of which only the parts that are used are ever
/// cleared: a block may have 227 KiB of shared memory and touch a few lines of it, and each
/// schedule starts it anew.
template <class T, std::uint64_t kPart>
class Zeroed {
  static_assert(std::is_trivially_copyable_v<T> && std::has_single_bit(kPart));

 public:
  /// Elements in a part: those from a multiple of it on lie together once one of them was used.
  static constexpr std::uint64_t part = kPart;

  Zeroed() = default;
  explicit Zeroed(std::uint64_t count) : size_(count), used_((count + kPart - 1) / kPart) {
    // Whole parts, so that none has a size of its own.
    memory_.reset(
        static_cast<T*>(std::malloc(std::max<std::size_t>(used_.size(), 1) * kPart * sizeof(T))));
    if (!memory_) throw std::bad_alloc();
  }

  std::uint64_t size() const { return size_; }
  bool used(std::uint64_t i) const { return used_[i / kPart] != 0; }
  /// The element; those behind it are there up to the end of its part.
  T* at(std::uint64_t i) {
    std::uint8_t& used = used_[i / kPart];
    if (used == 0) {
      used = 1;
      std::memset(static_cast<void*>(memory_.get() + i / kPart * kPart), 0, kPart * sizeof(T));
    }
    return memory_.get() + i;
  }
  /// The element of a part that is used.
  const T& operator[](std::uint64_t i) const { return memory_.get()[i]; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::uint64_t size_ = 0;
  std::unique_ptr<T, Free> memory_;
  std::vector<std::uint8_t> used_;  // by part
};

}  // namespace ringfence::ptx

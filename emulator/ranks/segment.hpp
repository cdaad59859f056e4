#pragma once
// The memory that the rank processes of a pool share.
//
// It is anonymous: a fork inherits the mapping at the same address, so plain pointers and virtual
// functions work in every rank, and no name exists that a crash could leave behind.

#include <atomic>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <string>

namespace ringfence::ranks {

// Bytes that this process may still take: what the kernel calls available, within the limits of
// the control groups it is in.
std::uint64_t available_memory();

// Thrown by the segment's resource.
class SegmentFull : public std::bad_alloc {
 public:
  SegmentFull(std::uint64_t segment, std::uint64_t asked);
  const char* what() const noexcept override { return text_; }

 private:
  char text_[160];
};

// Allocates from the segment; lies in it, like all that it gives. A spinning lock makes it safe to
// call from several ranks.
class SegmentResource final : public std::pmr::memory_resource {
 public:
  SegmentResource(void* base, std::size_t bytes, std::size_t segment_bytes);

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* at, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::size_t segment_bytes_;  // for messages
  boost::interprocess::managed_external_buffer buffer_;
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
};

class Segment {
 public:
  // `wanted` bytes, or less down to `needed` as memory is available. Throws SegmentError if
  // `needed` is not, before anything is mapped.
  Segment(std::uint64_t needed, std::uint64_t wanted);
  std::pmr::memory_resource* memory() { return resource_; }
  std::uint64_t bytes() const { return region_.get_size(); }

 private:
  boost::interprocess::mapped_region region_;
  SegmentResource* resource_ = nullptr;  // never destroyed: it goes with the mapping
};

}  // namespace ringfence::ranks

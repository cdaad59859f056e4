#include "emulator/ranks/segment.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/anonymous_shared_memory.hpp>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "emulator/ranks/executors.hpp"

namespace ringfence::ranks {
namespace {

namespace ipc = boost::interprocess;

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// A file that holds one number, or "max".
std::uint64_t number_in(const std::string& path) {
  std::ifstream in(path);
  std::uint64_t n = 0;
  return in >> n ? n : kUnlimited;
}

std::uint64_t field_of(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string word; in >> word;) {
    std::uint64_t n = 0;
    if (word == name && in >> n) return n;
  }
  return kUnlimited;
}

// What is left below the limits of the control group at `path` (below `root`) and its ancestors.
std::uint64_t left_in_group(const std::string& root, std::string path, const char* limit,
                            const char* usage) {
  std::uint64_t left = kUnlimited;
  for (;;) {
    const std::string at = root + path;
    const std::uint64_t most = number_in(at + "/" + limit);
    if (most != kUnlimited) {
      const std::uint64_t used = number_in(at + "/" + usage);
      if (used != kUnlimited) {
        // Cached files count as used but give way.
        std::uint64_t cache = field_of(at + "/memory.stat", "inactive_file");
        cache = cache == kUnlimited ? 0 : std::min(cache, used);
        left = std::min(left, most > used - cache ? most - (used - cache) : 0);
      }
    }
    if (path.empty() || path == "/") return left;
    path.erase(path.rfind('/'));
  }
}

// Below the limit of the process's address space (ulimit -v), with room left for its own heap.
std::uint64_t left_of_addresses() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const std::uint64_t used = number_in("/proc/self/statm");  // pages; the first number
  const std::uint64_t bytes = used * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur > bytes ? (limit.rlim_cur - bytes) / 4 * 3 : 0;
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

std::uint64_t available_memory() {
  std::uint64_t left = field_of("/proc/meminfo", "MemAvailable:");
  if (left != kUnlimited) left *= 1024;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      left = std::min(left, left_in_group("/sys/fs/cgroup", path, "memory.max", "memory.current"));
    } else if (controllers.find("memory") != std::string::npos) {
      left = std::min(left, left_in_group("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes",
                                          "memory.usage_in_bytes"));
    }
  }
  return std::min(left, left_of_addresses());
}

SegmentFull::SegmentFull(std::uint64_t segment, std::uint64_t asked) {
  std::snprintf(
      text_, sizeof text_, "the shared segment of %llu MiB is full (%llu more bytes needed)",
      static_cast<unsigned long long>(segment >> 20), static_cast<unsigned long long>(asked));
}

SegmentResource::SegmentResource(void* base, std::size_t bytes, std::size_t segment_bytes)
    : segment_bytes_(segment_bytes), buffer_(ipc::create_only, base, bytes) {}

void* SegmentResource::do_allocate(std::size_t bytes, std::size_t alignment) {
  while (lock_.test_and_set(std::memory_order_acquire)) {
  }
  void* at = alignment > 16 ? buffer_.allocate_aligned(bytes, alignment, std::nothrow)
                            : buffer_.allocate(bytes, std::nothrow);
  lock_.clear(std::memory_order_release);
  if (at == nullptr) throw SegmentFull(segment_bytes_, bytes);
  return at;
}

void SegmentResource::do_deallocate(void* at, std::size_t, std::size_t) {
  while (lock_.test_and_set(std::memory_order_acquire)) {
  }
  buffer_.deallocate(at);
  lock_.clear(std::memory_order_release);
}

Segment::Segment(std::uint64_t needed, std::uint64_t wanted) {
  const std::uint64_t available = available_memory();
  if (needed > available) {
    throw SegmentError("the shared segment needs " + mebibytes(needed) + ", but only " +
                       mebibytes(available) + " of memory are available");
  }
  const std::uint64_t bytes = std::max(needed, std::min(wanted, available));
  try {
    region_ = ipc::anonymous_shared_memory(bytes);
  } catch (const ipc::interprocess_exception& e) {
    throw SegmentError("the shared segment: cannot map " + mebibytes(bytes) + ": " + e.what());
  }
  // The resource comes first, the rest is what it gives out.
  constexpr std::size_t kHead = 4096;
  static_assert(sizeof(SegmentResource) <= kHead);
  auto* const base = static_cast<std::byte*>(region_.get_address());
  resource_ = ::new (static_cast<void*>(base)) SegmentResource(base + kHead, bytes - kHead, bytes);
}

}  // namespace ringfence::ranks

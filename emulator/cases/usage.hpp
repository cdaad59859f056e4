#pragma once
// What kernels did to the memories of a case, over the runs of an executor: which bytes they wrote,
// and which of those that a peer or the consumer read nobody ever wrote. Ranks that are processes
// share it. Marks are only ever set, so that a mark which is there already costs a look.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringfence::cases {

class Usage {
 public:
  // Bytes of a memory beyond which only whether it was written is kept.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

  // A memory whose replica of rank r is region `regions[r]` of the program. `by_byte`: nothing but
  // kernels gives its bytes a value that anybody would want.
  void follow(const std::vector<std::uint32_t>& regions, std::uint64_t bytes, bool by_byte);
  // What all ranks have to share, zero at first.
  std::size_t shared_bytes() const { return sizeof(Line) * lines_ + regions_.size() + 64; }
  void share(std::byte* shared);

  // By a kernel. `data`: not a signal, which is a strong access of one word.
  void wrote(std::uint32_t region, std::uint64_t offset, std::uint64_t bytes, bool data);
  // By a kernel of another rank than the region's.
  void peer_read(std::uint32_t region, std::uint64_t offset, std::uint64_t bytes);

  bool written(std::uint32_t region) const {
    return region < regions_.size() && data_[region] != 0;
  }
  // A run of bytes that were read and never written: [first, last].
  struct Gap {
    std::uint64_t first = 0, last = 0;
    bool by_peer = false;  // else by the consumer alone
  };
  // Of a region; [begin, end) is what the consumer reads of it.
  std::vector<Gap> never_written(std::uint32_t region, std::uint64_t begin,
                                 std::uint64_t end) const;

 private:
  static constexpr std::uint64_t kLine = 16;
  struct Line {
    std::uint16_t written = 0;  // bit i: byte i
    std::uint16_t read = 0;     // by a peer
  };
  struct Region {
    std::uint64_t bytes = 0;  // that are followed one by one
    std::size_t first = 0;    // line
  };
  void mark(const Region& r, std::uint64_t offset, std::uint64_t bytes, std::uint16_t Line::*what);

  std::vector<Region> regions_;  // by region
  std::size_t lines_ = 0;
  Line* line_ = nullptr;
  std::uint8_t* data_ = nullptr;  // by region
};

}  // namespace ringfence::cases

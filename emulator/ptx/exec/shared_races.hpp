#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ringfence::ptx {

/// What one warp knows of each warp of its block: the highest of that warp's clock values whose
/// accesses happen before its own next one.
using WarpClock = std::vector<std::uint32_t>;

enum class SharedUse : std::uint8_t {
  read,
  write,
  strong_read,   ///< volatile, relaxed, acquire
  strong_write,  ///< the same, or an atomic
};

/// Data races in one block's shared memory. Happens-before is kept warp by warp: a barrier joins
/// the clocks of its participants, __syncwarp orders the lanes of one warp. Splits of a warp share
/// a clock, and every strong write (volatile, relaxed, atomic) is taken to publish to every later
/// strong read in the block, so a race may be missed but none is invented. Each byte remembers its
/// last write and its last read.
class SharedRaces {
 public:
  SharedRaces(std::uint64_t bytes, std::uint32_t warps);

  struct Race {
    std::uint32_t other_thread = 0;
    bool other_wrote = false;
    std::uint32_t byte = 0;
  };
  /// Records an access by a lane; the race with an earlier one, if there is one.
  std::optional<Race> access(std::uint64_t offset, std::uint32_t bytes, std::uint32_t warp,
                             std::uint32_t lane, SharedUse use);

  /// Adds what the warp knows and did to `clock`.
  void give(std::uint32_t warp, WarpClock& clock);
  /// The warp comes to know what was given.
  void take(std::uint32_t warp, const WarpClock& clock);
  /// The lanes of the warp are ordered from here on (bar.warp.sync).
  void order_lanes(std::uint32_t warp) { ++clocks_[warp][warp]; }

 private:
  // A thread's moment: clock value, warp and lane. Zero: never.
  struct Stamp {
    std::uint32_t clock = 0;
    std::uint16_t thread = 0;
    bool strong = false;
  };
  struct Byte {
    Stamp write;
    Stamp read;
    std::uint32_t readers = 0;  ///< unordered readers of other warps: the first, in readers_
  };
  struct Reader {
    Stamp stamp;
    std::uint32_t next = 0;  ///< a place in readers_; 0: none
  };
  bool read_before(const Byte& byte, const Stamp& by) const;
  void add_reader(Byte& byte, const Stamp& stamp);
  void drop_readers(Byte& byte);
  bool ordered(const Stamp& before, std::uint32_t warp, std::uint32_t lane) const;
  void check_byte(std::uint64_t at, const Stamp& now, bool writes, std::optional<Race>& race);
  void split_word(std::uint64_t word);

  /// While a word is only accessed whole, its first byte stands for all four.
  std::vector<Byte> bytes_;
  std::vector<std::uint8_t> split_;  ///< word -> accessed in part at some time
  std::vector<WarpClock> clocks_;
  WarpClock strong_;             ///< what strong writes published
  std::vector<Reader> readers_;  ///< lists of bytes, and of free places; the first is no place
  std::uint32_t free_ = 0;
};

}  // namespace ringfence::ptx

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

namespace ringfence::ptx {

/// What one warp knows: of each warp and each engine the highest of its clock values whose accesses
/// happen before its own next one; then, of each warp, the same for a successor in the async proxy
/// (a proxy fence lies on the path).
using WarpClock = std::vector<std::uint32_t>;

enum class SharedUse : std::uint8_t {
  read,
  write,
  strong_read,   ///< volatile, relaxed, acquire
  strong_write,  ///< the same, or an atomic
};

/// One asynchronous operation: what does it, and its number there, from 1 on. Engines are not
/// threads: a copy engine's operations have one each, in turn; a warpgroup's matrix products one.
struct AsyncMoment {
  std::uint32_t engine = 0;
  std::uint32_t number = 0;
};

/// Data races in the shared memory of a cluster's blocks. Happens-before is kept warp by warp: a
/// barrier joins the clocks of its participants, __syncwarp orders the lanes of one warp. Splits of
/// a warp share a clock, and every strong write (volatile, relaxed, atomic) is taken to publish to
/// every later strong read in the cluster, so a race may be missed but none is invented. Each byte
/// remembers its last write and its last read.
///
/// An asynchronous operation is ordered after what its issuer knew when it issued it, and before
/// what comes after a wait for it. What a thread wrote is there for the async proxy only behind a
/// proxy fence (PTX: proxy-preserved base causality); the end of an asynchronous operation is one
/// in the other direction. A read through the generic proxy before an asynchronous write needs no
/// fence here.
class SharedRaces {
 public:
  SharedRaces(std::uint64_t bytes, std::uint32_t warps, std::uint32_t engines = 0);

  struct Race {
    bool other_async = false;
    std::uint32_t other = 0;  ///< thread (of the cluster) or engine
    bool other_wrote = false;
    bool proxy = false;  ///< ordered, but for the proxy fence
    std::uint32_t byte = 0;
  };
  /// Records an access by a lane; the race with an earlier one, if there is one.
  std::optional<Race> access(std::uint64_t offset, std::uint32_t bytes, std::uint32_t warp,
                             std::uint32_t lane, SharedUse use);
  /// The same for an operation that `warp` issued just now; `lane`: the one that did, or kLanes
  /// where the whole warp did. `proxy`: through the async proxy.
  std::optional<Race> access_async(std::uint64_t offset, std::uint32_t bytes, std::uint32_t warp,
                                   std::uint32_t lane, AsyncMoment moment, bool writes,
                                   bool proxy = true);

  /// Adds what the warp knows and did to `clock`.
  void give(std::uint32_t warp, WarpClock& clock);
  /// The warp comes to know what was given.
  void take(std::uint32_t warp, const WarpClock& clock);
  /// The lanes of the warp are ordered from here on (bar.warp.sync).
  void order_lanes(std::uint32_t warp) { ++clocks_[warp][warp]; }
  /// fence.proxy.async by the warp.
  void fence_proxy(std::uint32_t warp);
  /// The operation that `warp` issued just now will have ended for whoever takes `clock`.
  void end_async(std::uint32_t warp, AsyncMoment moment, WarpClock& clock);
  /// The warp has waited for the engine's operations up to this one.
  void wait_async(std::uint32_t warp, AsyncMoment moment);

 private:
  // A thread's moment: clock value, warp and lane. Zero: never. An engine is a warp behind all
  // others, of one lane.
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
  // Who makes an access: its stamp, and the warp whose knowledge counts.
  struct Actor {
    Stamp now;
    std::uint32_t warp = 0;
    std::uint32_t lane = 0;
    bool async = false;
  };
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  struct Reader {
    Stamp stamp;
    std::uint32_t next = 0;  ///< a place in readers_; 0: none
  };
  bool read_before(const Byte& byte, const Stamp& by) const;
  void add_reader(Byte& byte, const Stamp& stamp);
  void drop_readers(Byte& byte);
  bool ordered(const Stamp& before, const Actor& actor) const;
  bool proxied(const Stamp& before, const Actor& actor) const;
  std::optional<Race> visit(std::uint64_t offset, std::uint32_t bytes, const Actor& actor,
                            bool writes);
  void check_byte(std::uint64_t at, const Actor& actor, bool writes, std::optional<Race>& race);
  void split_word(std::uint64_t word);

  std::uint32_t warps_;
  std::uint32_t agents_;  ///< warps and engines
  /// While a word is only accessed whole, its first byte stands for all four. Zeroed memory that
  /// the system gives when it is touched: most of a block's is not.
  std::unique_ptr<Byte[], Free> bytes_;
  std::unique_ptr<std::uint8_t[], Free> split_;  ///< word -> accessed in part at some time
  std::vector<WarpClock> clocks_;
  WarpClock strong_;             ///< what strong writes published
  std::vector<Reader> readers_;  ///< lists of bytes, and of free places; the first is no place
  std::uint32_t free_ = 0;
};

}  // namespace ringfence::ptx

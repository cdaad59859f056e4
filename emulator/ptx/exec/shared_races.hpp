#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "emulator/ptx/exec/zeroed.hpp"

namespace ringfence::ptx {

/// What one warp knows: of each warp and each engine the highest of its clock values whose accesses
/// happen before its own next one; then, of each warp, the same for a successor in the async proxy
/// (a proxy fence lies on the path).
using WarpClock = std::vector<std::uint32_t>;

/// One asynchronous operation: what does it, and its number there, from 1 on. Engines are not
/// threads: a copy engine's operations have one each, in turn; a warpgroup's matrix products one.
/// Under a memory model, the engine that GlobalMemory::issue() gave, and the times at which what it
/// reads, and what it writes, has ended.
struct AsyncMoment {
  std::uint32_t engine = 0;
  std::uint32_t number = 0;
  std::uint32_t modelled = 0;  ///< the model's engine; `time`: of its next accesses
  std::uint32_t time = 0;
  std::uint32_t read = 0;  ///< the time that ends its reads, and `ended` all of it
  std::uint32_t ended = 0;
  std::uint32_t op = 0;    ///< the instruction
  bool read_seen = false;  ///< its issuer has waited for the end of its reads
};

/// A thread's access, as SharedRaces takes it.
struct SharedAccess {
  std::uint32_t warp = 0;  ///< of the cluster
  std::uint32_t lane = 0;
  bool writes = false;
  bool strong = false;        ///< volatile, relaxed, atomic ...; without a memory model only
  bool engines_only = false;  ///< the model looks after the other threads
  std::uint32_t time = 0;     ///< the thread's moment by the memory model; 0 without one
  std::uint32_t level = 0;    ///< what the threads of the block did before that time is known
  std::uint32_t op = 0;       ///< the instruction
  bool engine = false;        ///< of an engine of the model, `thread`; `warp` issued it just now
  bool async = false;         ///< through the async proxy
  std::uint32_t thread = 0;
};

/// Happens-before between threads of a cluster and engines, by a memory model. Numbers: threads of
/// the cluster, behind them engines.
class SharedOrder {
 public:
  virtual ~SharedOrder() = default;
  /// Whether what `other` did at its moment `time` is in the causality past of what `actor` does
  /// now, which `warp` makes or issued; `by_async`: also for the async proxy.
  virtual bool ordered(std::uint32_t other, std::uint32_t time, std::uint32_t actor,
                       std::uint32_t warp, bool by_async) = 0;
};

/// Data races in the part of a cluster's shared memory that is plain bytes. Each byte remembers its
/// last write and the reads since. Where each access is ordered after those that it conflicts with,
/// a read has one answer, the last write: so plain bytes are exact until a race shows, and then
/// the model is asked to tell it (history()).
///
/// Between threads, `order` says what happens before. Without a memory model it is kept warp by
/// warp: a barrier joins the clocks of its participants, __syncwarp orders the lanes of one warp.
/// Then splits of a warp share a clock, and every strong write (volatile, relaxed, atomic) is taken
/// to publish to every later strong read in the cluster, so a race may be missed but none is
/// invented.
///
/// An asynchronous operation is ordered after what its issuer knew when it issued it, and before
/// what comes after a wait for it, by the clocks of warps. What a thread wrote is there for the
/// async proxy only behind a proxy fence (PTX: proxy-preserved base causality); the end of an
/// asynchronous operation is one in the other direction. A read through the generic proxy before
/// an asynchronous write needs none, unless fence_reads() says so. With a memory model, all of this
/// is the model's: engines are its engines.
class SharedRaces {
 public:
  /// `warps` of the cluster, `block_warps` of each of its blocks.
  SharedRaces(std::uint64_t bytes, std::uint32_t warps, std::uint32_t block_warps,
              std::uint32_t engines = 0, SharedOrder* order = nullptr);

  struct Race {
    bool async = false;        ///< one of the two is an engine's
    bool other_async = false;  ///< the earlier one
    std::uint32_t other = 0;   ///< thread (of the cluster) or engine
    bool other_wrote = false;
    bool proxy = false;  ///< ordered, but for the proxy fence
    std::uint32_t byte = 0;
    std::uint32_t other_op = 0;  ///< a thread's instruction
  };
  /// Records an access by a lane; or, where it races with an earlier one, finds that: then from the
  /// racing byte on nothing is recorded.
  std::optional<Race> access(std::uint64_t offset, std::uint32_t bytes, const SharedAccess& access);
  /// The same for an operation that `warp` issued just now; `lane`: the one that did, or kLanes
  /// where the whole warp did. `proxy`: through the async proxy.
  std::optional<Race> access_async(std::uint64_t offset, std::uint32_t bytes, std::uint32_t warp,
                                   std::uint32_t lane, AsyncMoment moment, std::uint32_t op,
                                   bool writes, bool proxy = true);

  /// An access by a thread that a byte remembers.
  struct Past {
    std::uint32_t thread = 0;  ///< of the cluster
    std::uint32_t time = 0;
    std::uint32_t op = 0;
    std::uint32_t byte = 0;  ///< from the offset asked for
    std::uint32_t bytes = 0;
    bool write = false;
    bool engine = false;
    bool async = false;
  };
  /// What the bytes remember of threads, and of the model's engines; `offset` and `bytes` are
  /// multiples of 4.
  std::vector<Past> history(std::uint64_t offset, std::uint32_t bytes) const;
  bool has_engines() const { return agents_ != warps_; }
  /// An asynchronous write needs a proxy fence behind reads as well.
  void fence_reads(bool on) { fence_reads_ = on; }
  /// One that had none, of those since this was asked last: the instructions of the read and of the
  /// write.
  struct Unfenced {
    std::uint32_t read = 0;
    std::uint32_t write = 0;
  };
  std::optional<Unfenced> read_unfenced() { return std::exchange(read_unfenced_, std::nullopt); }

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
  // A moment: clock value of its warp, warp and lane; the thread's own time. Clock 0: never. An
  // engine is a warp behind all others, of one lane.
  struct Stamp {
    std::uint32_t clock = 0;
    std::uint32_t time = 0;
    std::uint32_t op = 0;
    std::uint32_t thread : 30 = 0;
    std::uint32_t strong : 1 = 0;
    std::uint32_t async : 1 = 0;  // through the async proxy
  };
  // Reads by lanes of one warp at one time.
  struct Reads {
    Stamp first;
    std::uint32_t lanes = 0;
  };
  struct Byte {
    Stamp write;
    Reads read;                 // the latest
    std::uint32_t readers = 0;  // unordered ones before it: the first, in readers_
  };
  // Who makes an access: its stamp, and the warp whose knowledge counts.
  struct Actor {
    Stamp now;
    std::uint32_t warp = 0;
    std::uint32_t lane = 0;
    std::uint32_t level = 0;
    bool async = false;  // through the async proxy
    bool engine = false;
    bool engines_only = false;
  };
  struct Word {
    Byte whole;              // while it is only accessed whole
    std::uint32_t part = 0;  // else its place in parts_, from 1
  };
  struct Reader {
    Reads reads;
    std::uint32_t next = 0;  // a place in readers_; 0: none
  };
  using Split = std::array<Byte, 4>;

  void add_reader(Byte& byte, const Reads& reads);
  void drop_readers(Byte& byte);
  void forget_reader(Byte& byte, const Stamp& by);
  bool is_engine(const Stamp& s) const { return s.thread / 32U >= warps_; }
  bool asks(std::uint32_t other, std::uint32_t time, const Actor& actor, bool by_async);
  bool ordered(const Stamp& before, const Actor& actor);
  bool known(const Reads& reads, const Actor& actor);
  bool proxied(const Stamp& before, const Actor& actor);
  std::optional<Race> visit(std::uint64_t offset, std::uint32_t bytes, const Actor& actor,
                            bool writes);
  bool check_byte(Byte& byte, std::uint64_t at, const Actor& actor, bool writes,
                  std::optional<Race>& race);
  Split& split_word(Word& word);

  std::uint32_t warps_;
  std::uint32_t block_threads_;
  std::uint32_t agents_;  // warps and engines
  SharedOrder* order_;
  Zeroed<Word, 64> words_;
  std::vector<Split> parts_;
  std::vector<WarpClock> clocks_;
  WarpClock strong_;             // what strong writes published
  std::vector<Reader> readers_;  // lists of bytes, and of free places; the first is no place
  std::uint32_t free_ = 0;
  // What `order_` said last: this thread knows that moment.
  std::uint32_t known_by_ = ~std::uint32_t{0};
  Stamp known_;
  // Of an engine, whose tile many threads accessed: it knows others up to these moments, also by
  // the async proxy.
  std::uint32_t engine_ = ~std::uint32_t{0};
  std::vector<std::uint32_t> engine_knows_[2];
  bool fence_reads_ = false;
  std::optional<Unfenced> read_unfenced_;
};

}  // namespace ringfence::ptx

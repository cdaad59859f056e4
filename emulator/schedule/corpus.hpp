#pragma once
// Schedules that gave something new, which others are made of.
//
// New is a pair of lines of the program, of which one read what the other wrote; that a run had
// such a pair more often than any before (machine::Trail::Pair); and a read of one iteration that
// returned the write of another one (Trail::reads), which lets a loop's rare interleavings be
// approached step by step. Of each, runs that show it are counted: half of the changed schedules
// are made of those that were first to show what is rarest (Boehme, Pham, Roychoudhury, CCS 2016,
// do so by paths). What schedule n is made of depends on the results of lower numbers alone, and on
// the same ones for any number of workers: on all but those of its own block of numbers and of the
// block before.

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "emulator/schedule/executor.hpp"

namespace ringfence::schedule {

using Decisions = std::vector<Decision>;

// A schedule that was kept, with what came of it.
struct KeptSchedule {
  std::uint64_t number = 0;
  Decisions decisions;
  std::uint64_t digest = 0;
  std::uint32_t points = 0, steps = 0;
  bool new_pair = false;  // not for its reads alone
};

class Corpus {
 public:
  // `given` are run first, as they are.
  explicit Corpus(const std::vector<Decisions>& given) : given_(given) {}

  // What the default schedule showed is nothing new.
  void begin(const Outcome& of_default);
  // Changes the run of schedule n if it is one of those given or is to be made of one that was
  // kept. Waits for the schedules that this depends on; `give_up` is asked meanwhile, and when it
  // says so the run is left as it is.
  void choose(std::uint64_t n, RunSpec& run, const std::function<bool()>& give_up);
  // Schedule n came to its end; once for each number that `choose` was asked for.
  void ended(std::uint64_t n, const Outcome& outcome);
  // Who waits in `choose` looks again whether to give up.
  void wake() { merged_.notify_all(); }

  // Once no schedule runs any more: those with a new pair, in the order of their numbers; those
  // that were given are not among them.
  std::vector<KeptSchedule> finish();

 private:
  static constexpr std::uint64_t kBlock = 64;
  // Of all kept together, and of those that were kept for their reads alone; and of one, beyond
  // which it is not kept.
  static constexpr std::size_t kMostDecisions = 1u << 20, kMostForReads = 1u << 19,
                               kMostOfOne = 1u << 15;
  // Reads of which it is known that they were shown: beyond, none is new.
  static constexpr std::size_t kMostReads = 1u << 16;
  static constexpr std::size_t kRarest = 8;

  // Of a run: a pair, or a read, which no run has twice.
  struct Shown {
    std::uint64_t key;
    std::uint32_t often;  // a bit
    bool read;
  };
  struct Covered {
    std::uint32_t often = 0;  // as bits
    std::uint32_t first = 0;  // in kept_: who showed it; kNobody: the default schedule
    std::uint64_t runs = 0;   // that showed it, of the blocks that are merged
    // Of those that are not merged yet. A number is not chosen for before the block two below its
    // own is merged, so there are never more than two at a time.
    std::array<std::uint32_t, 2> runs_of_block{};
  };
  struct Ended {
    std::vector<Shown> shown;
    KeptSchedule schedule;
  };
  struct Block {
    std::uint64_t ended = 0;
    std::map<std::uint64_t, Ended> fresh;  // by number: those with something that was new then
  };
  // Who chooses for a block knows the blocks up to two below.
  struct Known {
    std::size_t kept = 0;
    std::vector<std::uint32_t> rarest;  // in kept_
  };
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  static std::vector<Shown> shown_by(const Outcome& outcome);
  bool is_new(const Shown& s) const;
  void cover(const std::vector<Shown>& shown, std::uint32_t first);
  void merge(std::uint64_t number, Block& block);
  std::vector<std::uint32_t> rarest() const;

  const std::vector<Decisions>& given_;
  mutable std::mutex mutex_;
  std::condition_variable merged_;
  std::map<std::uint64_t, Block> blocks_;  // that are not merged yet
  std::vector<Known> known_;               // by block, once it is merged
  std::vector<KeptSchedule> kept_;
  std::size_t decisions_ = 0, for_reads_ = 0, reads_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;  // in covered_, by key
  std::vector<Covered> covered_;
};

}  // namespace ringfence::schedule

#pragma once
// Schedules that gave something new, which others are made of.
//
// New is a pair of lines of the program, of which one read what the other wrote, or that a run had
// such a pair more often than any before (machine::Trail::Pair). What schedule n is made of depends
// on the results of lower numbers alone, and on the same ones for any number of workers: on all but
// those of its own block of numbers and of the block before.

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

  // Once no schedule runs any more: kept, in the order of their numbers; those that were given are
  // not among them.
  std::vector<KeptSchedule> finish();

 private:
  static constexpr std::uint64_t kBlock = 64;
  // Of all kept together; and of one, beyond which it is not kept.
  static constexpr std::size_t kMostDecisions = 1u << 20, kMostOfOne = 1u << 15;

  struct Pair {
    std::uint64_t key;
    std::uint32_t often;  // a bit
  };
  struct Ended {
    std::vector<Pair> pairs;
    KeptSchedule schedule;
  };
  struct Block {
    std::uint64_t ended = 0;
    std::map<std::uint64_t, Ended> fresh;  // by number: those with something that was new then
  };
  static std::vector<Pair> pairs_of(const Outcome& outcome);
  bool any_new(const std::vector<Pair>& pairs) const;
  void cover(const std::vector<Pair>& pairs);
  void merge(Block& block);

  const std::vector<Decisions>& given_;
  mutable std::mutex mutex_;
  std::condition_variable merged_;
  std::map<std::uint64_t, Block> blocks_;  // that are not merged yet
  std::vector<std::size_t> kept_before_;   // by block, once it is merged: how many are kept then
  std::vector<KeptSchedule> kept_;
  std::size_t decisions_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> covered_;  // by pair: how often, as bits
};

}  // namespace ringfence::schedule

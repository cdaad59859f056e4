#pragma once
// Who signals where: the strong writes into small memories, for the question who should have
// written what a stuck wait waits for. Counted by word and rank, over the runs of an executor.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringfence::cases {

// A rank that should have written, and where it did so elsewhere or before.
struct Missing {
  std::uint32_t rank = 0;
  bool known = false;  // the rest is
  std::uint32_t block = 0;
  std::uint16_t site = 0;
};

class Signals {
 public:
  explicit Signals(std::uint32_t ranks) : ranks_(ranks) {}

  // A memory whose replica of rank r is region `regions[r]` of the program. Nothing for those that
  // are too large for signals.
  void follow(const std::vector<std::uint32_t>& regions, std::uint64_t bytes);
  // What all ranks have to share, zero at first.
  std::size_t shared_bytes() const { return sizeof(Entry) * entries_ + 64; }
  void share(std::byte* shared) { entry_ = reinterpret_cast<Entry*>(shared); }

  // From 1 on; what was counted in other runs is only remembered as having been.
  void begin(std::uint32_t run) { run_ = run; }
  // By a thread of `rank` in its own process; `adds`: a read-modify-write.
  void wrote(std::uint32_t rank, std::uint32_t region, std::uint64_t offset, std::uint64_t bytes,
             bool adds, std::uint32_t block, std::uint16_t site, std::uint32_t run);

  // Who should have written there, as far as what was written says it:
  // - a place that one rank writes, its owner apart, who takes the signal: that rank;
  // - a counter, that several add to: those that have added least often, if not all are even;
  // - a place that ranks write at the owner's peers and not here: those ranks;
  // - else the ranks that have signalled nothing at all into this memory, if others have.
  std::vector<Missing> missing(std::uint32_t region, std::uint64_t offset) const;

 private:
  struct Entry {
    std::uint32_t run = 0;  // in which it was counted; 0: never written
    std::uint16_t adds = 0;
    std::uint16_t stores = 0;
    std::uint16_t block = 0;
    std::uint16_t site = 0;
    std::uint32_t count(std::uint32_t now) const { return run == now ? adds + stores : 0U; }
  };
  struct Memory {
    std::vector<std::uint32_t> regions;  // by rank
    std::uint64_t words = 0;
    std::size_t first = 0;  // entry of its first replica; behind all replicas: one for each rank
  };
  const Memory* of(std::uint32_t region) const;
  Entry& at(const Memory& m, std::size_t replica, std::uint64_t word, std::uint32_t rank) const {
    return entry_[m.first + (replica * m.words + word) * ranks_ + rank];
  }
  Entry& total(const Memory& m, std::uint32_t rank) const {
    return entry_[m.first + m.regions.size() * m.words * ranks_ + rank];
  }
  static void count(Entry& e, bool adds, std::uint32_t block, std::uint16_t site,
                    std::uint32_t run);

  std::uint32_t ranks_;
  std::vector<Memory> memories_;
  std::vector<std::int32_t> memory_of_;  // by region; -1: not followed
  std::vector<std::uint32_t> owner_of_;  // by region
  std::size_t entries_ = 0;
  Entry* entry_ = nullptr;
  std::uint32_t run_ = 0;
};

}  // namespace ringfence::cases

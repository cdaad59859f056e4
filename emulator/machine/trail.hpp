#pragma once
// What a run was, whatever the order in which its threads took their steps: which write each strong
// read returned, and which write each strong write comes behind. Two schedules that only order
// independent steps otherwise have equal trails.

#include <array>
#include <cstdint>
#include <span>

namespace ringfence::machine {

class Trail {
 public:
  // A line of the program whose write a line's read returned, of which ranks, and how often in the
  // run. `own`: the thread's own write.
  struct Pair {
    std::uint16_t write_site = 0;  // kInitial: what was there before every launch
    std::uint16_t read_site = 0;
    std::uint16_t write_rank = 0;  // below 1024
    std::uint16_t read_rank = 0;
    bool own = false;
    std::uint32_t times = 0;
    std::uint64_t key() const {
      return std::uint64_t{write_site} << 48 | std::uint64_t{read_site} << 32 |
             std::uint64_t{write_rank} << 16 | std::uint64_t{read_rank} << 1 | std::uint64_t{own};
    }
  };
  static constexpr std::uint16_t kInitial = 0xffff;

  void clear() {
    for (std::uint32_t i = 0; i < used_; ++i) table_[slots_[i]] = {};
    used_ = reads_used_ = 0;
    sum_ = last_fence_sc_ = 0;
  }
  // Events are named by numbers that do not depend on the schedule.
  void read(std::uint64_t reader, std::uint64_t writer, const Pair& pair) {
    const std::uint64_t read = mixed(reader, writer + 1);
    sum_ += read;
    if (reads_used_ < kMostReads) reads_[reads_used_++] = read;
    count(pair);
  }
  void write(std::uint64_t writer, std::uint64_t before) { sum_ += mixed(writer, ~before); }
  void fence_sc(std::uint64_t fence) {
    sum_ += mixed(fence + 2, ~last_fence_sc_);
    last_fence_sc_ = fence;
  }

  // Equal for equal trails, and hardly ever else. A sum: the order of events is of no matter.
  std::uint64_t fingerprint() const { return sum_; }
  // The first kMost of them, in the order in which they came to be.
  static constexpr std::uint32_t kMost = 768;
  template <class F>
  void each_pair(F&& f) const {
    for (std::uint32_t i = 0; i < used_; ++i) f(table_[slots_[i]]);
  }

  // The first kMostReads strong reads, each with the write that it returned, as a number: finer
  // than a pair, as it tells the iterations of a loop apart.
  static constexpr std::uint32_t kMostReads = 256;
  std::span<const std::uint64_t> reads() const { return std::span(reads_).first(reads_used_); }

 private:
  static constexpr std::uint32_t kSlots = 1024;  // a power of two

  static std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = a * 0x9e3779b97f4a7c15u ^ (b + 0x7f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 29) * 0x94d049bb133111ebu;
    return x ^ x >> 32;
  }
  void count(const Pair& pair) {
    const std::uint64_t key = pair.key();
    std::uint32_t i = static_cast<std::uint32_t>(key * 0x9e3779b97f4a7c15u >> 54);
    while (table_[i].times != 0 && table_[i].key() != key) i = (i + 1) & (kSlots - 1);
    if (table_[i].times == 0) {
      if (used_ == kMost) return;
      slots_[used_++] = static_cast<std::uint16_t>(i);
      table_[i] = pair;
    }
    ++table_[i].times;
  }

  std::uint64_t sum_ = 0, last_fence_sc_ = 0;
  std::uint32_t used_ = 0, reads_used_ = 0;
  std::array<std::uint64_t, kMostReads> reads_{};
  std::array<std::uint16_t, kMost> slots_{};
  std::array<Pair, kSlots> table_{};
};

}  // namespace ringfence::machine

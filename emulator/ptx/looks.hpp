#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/ptx/program.hpp"
#include "emulator/ptx/register_sets.hpp"

namespace ringfence::ptx {

/// What a kernel's text says of its loops that wait.
///
/// A look is an access that a cycle of the kernel without effects comes back to: an iteration of it
/// that finds every register that counts as it was does nothing but look again, as long as what it
/// reads stays. The registers that do not count there are those that such a cycle changes whatever
/// it reads (counters of attempts, clocks) and that reach no more than a time-out's test, a pause
/// or a print.
///
/// A peeled look stands before such a cycle: the same access as a look of it, which a way without
/// more than weak loads leads to. Compilers make them of loops that test at their end, and programs
/// try once before they wait.
///
/// Of the rounds in which a whole block waits the same is asked; barriers and stores to shared
/// memory are no effects there, as the block's state shows what they do.
class Looks {
 public:
  explicit Looks(const Program& program, bool of_rounds = false);

  struct Register {
    std::uint32_t offset = 0;
    enum class Width : std::uint8_t { predicate, word, wide } width = Width::word;
  };
  /// What a thread that stands before an op has in its registers, as far as it is read again.
  struct State {
    std::vector<Register>
        counts;                   ///< what a cycle without effects around the op writes, and counts
    std::vector<Register> times;  ///< what it writes that does not count
    std::vector<Register> stays;  ///< what it only reads, and what is read behind it
  };

  /// Whether a cycle without effects comes back to this access, or it is a peeled look. A weak load
  /// is no look where a register that counts moves on with every iteration: it moves data.
  bool is_look(std::uint32_t op) const { return look_[op] != 0; }
  bool is_peeled(std::uint32_t op) const { return look_[op] != 0 && region_[op] == 0; }
  const State& of_look(std::uint32_t op) const { return states_[look_[op] - 1]; }
  State state(const Program& program, std::uint32_t op) const;
  /// Whether a cycle without effects comes back to an op.
  bool is_in_cycle(std::uint32_t op) const { return region_[op] != 0; }
  /// Which cycles these are, by number; 0: none.
  std::uint32_t cycles_of(std::uint32_t op) const { return region_[op]; }
  /// Whether what the cycles around a look read may end them: if not, they wait for nothing,
  /// however often they go round.
  bool waits(std::uint32_t look) const { return waits_[loop_[look]] != 0; }
  /// Whether attempts and clocks decide no more in the cycles around an op than how long they pause
  /// and when they are left: then what counts there decides all else.
  bool is_steady(std::uint32_t op) const { return steady_[region_[op]] != 0; }
  /// Whether an op has an effect that others, or its thread, could notice; an access never has one
  /// here, for what it finds may decide.
  bool has_effect(std::uint32_t op) const { return effect_[op] != 0; }
  /// Whether all that follows ends in a trap or a failed assertion.
  bool only_traps(std::uint32_t op) const { return op < ends_.size() && ends_[op] == 0; }
  /// A branch out of the cycles around a look that only attempts and clocks decide.
  struct TimeOut {
    std::uint32_t op = 0;
    bool traps = false;  ///< that is all it leads to, out of cycles that wait
  };
  /// The first setp that what a look returns comes to, moved and widened at most.
  struct Test {
    std::uint32_t op = 0;
    LookTest::Compare compare = LookTest::Compare::eq;
    unsigned bytes = 4;
    bool is_signed = false;
    bool swapped = false;  ///< the look's value stands at the right
  };
  static std::optional<Test> test_of(const Program& program, std::uint32_t look);
  /// Whether an op compares two integers: a setp, with another predicate or without.
  static bool compares(const Program& program, std::uint32_t op);
  const std::optional<Test>& test(std::uint32_t look) const { return tests_[look_[look] - 1]; }
  const std::vector<TimeOut>& time_outs(std::uint32_t look) const {
    return time_outs_[loop_[look]];
  }

 private:
  std::size_t number(Slot slot) const;
  Register place(std::size_t number) const;
  void find_regions(const Program& program);
  void find_classes(const Program& program, std::uint32_t region,
                    const std::vector<std::uint32_t>& ops);
  void find_time_outs(const Program& program);
  void find_peeled(const Program& program);
  std::uint32_t loop_behind(const Program& program, std::uint32_t op) const;
  void find_live(const Program& program, bool counted, std::vector<Bits>& live_in);
  void step_back(const Program& program, std::uint32_t op, bool counted, Bits& live) const;
  bool decides_by_time(std::uint32_t op) const;
  std::vector<std::uint32_t> steps_from(const Program& program, std::uint32_t op) const;
  void find_steady(const Program& program);

  bool of_rounds_ = false;
  std::uint32_t first_word_ = 0;  // bytes, as in Program; below the same by numbers
  std::uint32_t first_predicate_ = 0;
  std::size_t words_from_ = 0;
  std::size_t predicates_from_ = 0;
  std::size_t registers_ = 0;
  std::vector<std::uint32_t> region_;  // by op: the cycles without effects that it is part of, or 0
  std::vector<std::uint32_t> look_;    // by op: its place in states_, from 1
  std::vector<std::uint32_t> loop_;    // by op: its region, of a peeled look that behind it
  std::vector<std::uint8_t> effect_;   // by op
  std::vector<std::uint8_t> ends_;     // by op: the kernel's end can be reached
  std::vector<std::uint8_t> by_time_;  // by op: a branch of a region that no read decides
  std::vector<std::uint32_t> block_of_, last_of_;  // by op; by block
  std::vector<Bits> live_in_, counted_in_;         // by block
  std::vector<std::vector<std::uint32_t>> successors_;
  std::vector<State> states_;
  std::vector<std::optional<Test>> tests_;       // as states_
  std::vector<Bits> written_, read_;             // by region: what it writes; of that, by reads
  std::vector<std::vector<TimeOut>> time_outs_;  // by region
  std::vector<std::uint8_t> steady_;             // by region
  std::vector<std::uint8_t> waits_;              // by region
};

}  // namespace ringfence::ptx

#pragma once

// Trials of one iteration of a loop that waits. Private to emulator/ptx/exec.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "emulator/ptx/exec/state.hpp"

namespace ringfence::ptx {

// Iterations until a time-out; of those that look at a clock, how many are tried at later times.
inline constexpr unsigned kMostAttempts = 1U << 14;
inline constexpr unsigned kMostLooksAtClock = 4;

bool shows_time(Special special);
inline bool is_trap(Kind kind) { return kind == Kind::trap || kind == Kind::assert_fail; }
// What a load leaves in its register.
void extend(std::uint64_t& value, const MemoryOp& memory);

class Execution::State::LaneTrial final : public Trial {
 public:
  LaneTrial(std::shared_ptr<State> state, const Warp& warp, std::uint32_t pc, std::uint32_t lane,
            std::vector<Still> stills = {});

  End end(std::span<const std::uint64_t> values) const override;
  bool alike(std::uint64_t a, std::uint64_t b) const override;
  void give_up(Warp& warp, std::span<const std::uint64_t> values) const;

 private:
  struct Frame;
  using Values = std::vector<std::uint64_t>;
  // Before an op, with what is in the registers that are read again: as Looks::State lists them.
  struct Stand {
    std::uint32_t pc = 0;
    Values counts, times, stays;
  };
  // Looks that a thread comes to one after the other, if they return the same values; the last one
  // leads back to the look `again`.
  struct Round {
    std::vector<Stand> looks;
    std::size_t again = 0;
  };
  struct Marks;
  struct Course;

  LaneTrial(const LaneTrial& other, Stand stand);
  Frame& frame() const;
  Stand stand_at(const Warp& warp, std::uint32_t pc) const;
  void load(Frame& frame, const Stand& stand) const;
  std::uint64_t get(const Warp& warp, Looks::Register r) const;
  void put(Warp& warp, Looks::Register r, std::uint64_t value) const;
  Values get(const Warp& warp, const std::vector<Looks::Register>& list) const;
  void put(Warp& warp, const std::vector<Looks::Register>& list, const Values& values) const;
  std::uint64_t address_at(const Warp& warp, std::uint32_t pc) const;
  std::array<std::uint64_t, 2> operands_at(const Warp& warp, std::uint32_t pc) const;
  bool same_look(const Warp& warp, std::uint32_t pc) const;
  void answer(Warp& warp, std::uint32_t pc, std::span<const std::uint64_t> values) const;
  bool load_parameter(Warp& warp, std::uint32_t pc) const;
  const Still* still_at(const Warp& warp, std::uint32_t pc) const;
  bool go_round(Frame& frame, std::uint32_t& pc, std::span<const std::uint64_t> values,
                std::uint64_t now, bool& clocks, Marks* marks = nullptr,
                bool past_stills = true) const;
  std::optional<Round> round(Frame& frame, std::span<const std::uint64_t> values,
                             bool& clocks) const;
  std::uint64_t key_of(std::span<const std::uint64_t> values) const;
  void follow(const Warp& warp, std::uint32_t pc, Marks& marks) const;
  Course course(Frame& frame, const Stand& from, std::uint64_t value) const;
  bool are_one(Frame& frame, const Round& round) const;
  End last_attempt(std::span<const std::uint64_t> values, Values& times, std::uint64_t& now) const;

  std::shared_ptr<State> state_;
  std::uint32_t block_, cluster_rank_, warp_, lane_;
  std::array<std::uint32_t, 3> at_;
  std::uint64_t now_;
  std::uint64_t address_ = 0;
  std::array<std::uint64_t, 2> operands_ = {};  // of an atomic
  std::vector<Still> stills_;
  Stand at_look_;
};

// A warp of one lane to run on. Its registers are those of the trial that ran last.
struct Execution::State::LaneTrial::Frame {
  Block block;
  Warp warp;
  std::uint32_t bytes = 0;
  alignas(64) std::uint32_t lanes[kLanes] = {};
};

// The registers that hold what a look returned, or something that was computed from it.
struct Execution::State::LaneTrial::Marks {
  std::vector<std::uint32_t> copies, computed;  // by their places in the register file
  std::vector<std::uint64_t> tested;            // what copies were compared with
  bool lost = false;  // more than such comparisons decided where it goes on, or with what

  void begin(const Program& program, std::uint32_t look);
};

class Execution::State::WarpLookahead final : public Lookahead {
 public:
  WarpLookahead(State& state, Warp& warp, std::uint32_t pc) : state_(state), warp_(warp), pc_(pc) {}

  std::shared_ptr<const Trial> trial(std::uint32_t lane, std::vector<Still> stills) const override;
  std::optional<LookTest> test(std::uint32_t lane) const override;
  void give_up(std::uint32_t lane, std::span<const std::uint64_t> values,
               std::vector<Still> stills) override;
  std::uint64_t state(bool attempts) const override;
  bool counts_attempts() const override;
  std::vector<std::uint64_t> attempts() const override;
  void set_attempts(std::span<const std::uint64_t> values) override;
  Trial::End rounds_end(const Seen& seen, std::uint32_t idle, std::uint64_t key) override;
  void give_up_rounds(const Seen& seen, std::uint32_t idle) override;

 private:
  State& state_;
  Warp& warp_;
  std::uint32_t pc_;
};

}  // namespace ringfence::ptx

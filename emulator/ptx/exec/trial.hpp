#pragma once

// Trials of one iteration of a loop that waits. Private to emulator/ptx/exec.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "emulator/ptx/exec/state.hpp"

namespace ringfence::ptx {

class Execution::State::LaneTrial final : public Trial {
 public:
  LaneTrial(std::shared_ptr<State> state, const Warp& warp, std::uint32_t pc, std::uint32_t lane);

  End end(std::span<const std::uint64_t> values) const override;
  void give_up(Warp& warp, std::span<const std::uint64_t> values) const;

 private:
  struct Frame;
  using Values = std::vector<std::uint64_t>;

  Frame& frame() const;
  void load(Frame& frame, const Values& times) const;
  std::uint64_t get(const Warp& warp, Looks::Register r) const;
  void put(Warp& warp, Looks::Register r, std::uint64_t value) const;
  Values get(const Warp& warp, const std::vector<Looks::Register>& list) const;
  void put(Warp& warp, const std::vector<Looks::Register>& list, const Values& values) const;
  std::uint64_t address_at(const Warp& warp, std::uint32_t pc) const;
  bool same_look(const Warp& warp, std::uint32_t pc) const;
  void answer(Warp& warp, std::uint32_t pc, std::span<const std::uint64_t> values) const;
  bool go_round(Frame& frame, std::uint32_t& pc, std::span<const std::uint64_t> values,
                std::uint64_t now, bool& clocks) const;
  bool comes_back(Frame& frame, std::span<const std::uint64_t> values, bool& clocks) const;
  End last_attempt(std::span<const std::uint64_t> values, Values& times, std::uint64_t& now) const;

  std::shared_ptr<State> state_;
  std::uint32_t block_, cluster_rank_, warp_, lane_, pc_;
  std::array<std::uint32_t, 3> at_;
  std::uint64_t now_;
  std::uint64_t address_ = 0;
  Values counts_, times_, stays_;  // as Looks::State lists them
};

class Execution::State::WarpLookahead final : public Lookahead {
 public:
  WarpLookahead(State& state, Warp& warp, std::uint32_t pc) : state_(state), warp_(warp), pc_(pc) {}

  std::shared_ptr<const Trial> trial(std::uint32_t lane) const override;
  std::optional<LookTest> test(std::uint32_t lane) const override;
  void give_up(std::uint32_t lane, std::span<const std::uint64_t> values) override;
  std::uint64_t state() const override;

 private:
  State& state_;
  Warp& warp_;
  std::uint32_t pc_;
};

}  // namespace ringfence::ptx

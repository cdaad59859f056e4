#pragma once
// Every run of a small program, one after the other: the choices of a run are a list of numbers,
// and the next run is the next list. No reduction: for unit tests of the machine and for programs
// of a few steps.

#include <cstdint>
#include <vector>

#include "emulator/schedule/strategy.hpp"

namespace ringfence::schedule {

// Usage:  ExhaustiveStrategy all;  do { ... run with `all` ... } while (all.next());
// Private memory: for the inline executor only.
class ExhaustiveStrategy final : public Strategy {
 public:
  void begin(std::uint32_t expected_points) override;
  AgentId pick(const ReadyView& ready, AgentId current, bool current_ready, std::uint64_t label,
               std::uint32_t point) override;
  std::uint32_t choose(DecisionKind kind, std::uint64_t label, std::uint32_t point,
                       std::uint32_t options) override;

  // Goes to the next list of choices; false if the last run was the last one. Throws
  // std::logic_error if the last run did not ask the questions of the one before it: the program
  // then depends on something besides its choices.
  bool next();
  std::uint64_t runs() const { return runs_; }

 private:
  struct Step {
    std::uint32_t chosen;
    std::uint32_t options;
  };
  std::uint32_t answer(std::uint32_t options);

  std::vector<Step> steps_;
  std::size_t depth_ = 0;
  std::uint64_t runs_ = 0;
  bool diverged_ = false;
};

}  // namespace ringfence::schedule

#include "emulator/schedule/exhaustive.hpp"

#include <stdexcept>

namespace ringfence::schedule {

void ExhaustiveStrategy::begin(std::uint32_t) {
  depth_ = 0;
  ++runs_;
}

std::uint32_t ExhaustiveStrategy::answer(std::uint32_t options) {
  if (depth_ == steps_.size()) steps_.push_back({0, options});
  const Step& s = steps_[depth_++];
  diverged_ = diverged_ || s.options != options;
  return s.chosen < options ? s.chosen : 0;
}

AgentId ExhaustiveStrategy::pick(const ReadyView& ready, AgentId current, bool current_ready,
                                 std::uint64_t, std::uint32_t) {
  const AgentId first = default_pick(ready, current, current_ready);
  if (ready.count() == 1) return first;
  // Answer 0 is the default, the others are the remaining ready agents.
  std::uint32_t left = answer(ready.count());
  if (left == 0) return first;
  for (std::uint32_t i = 0;; ++i) {
    const AgentId id = ready.at(i);
    if (id != first && --left == 0) return id;
  }
}

std::uint32_t ExhaustiveStrategy::choose(DecisionKind, std::uint64_t, std::uint32_t,
                                         std::uint32_t options) {
  return answer(options);
}

bool ExhaustiveStrategy::next() {
  // A run that was cut short by a finding leaves no steps beyond its end: they were never made.
  if (diverged_ || depth_ < steps_.size()) {
    throw std::logic_error("exhaustive search: a run asked other questions than the one before");
  }
  while (!steps_.empty() && steps_.back().chosen + 1 >= steps_.back().options) steps_.pop_back();
  if (steps_.empty()) return false;
  ++steps_.back().chosen;
  return true;
}

}  // namespace ringfence::schedule

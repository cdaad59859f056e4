#include <algorithm>
#include <bit>

#include "emulator/schedule/strategies.hpp"

namespace ringfence::schedule {

void Deviations::draw(Random& random, double stale, const FaultSpec& faults, std::uint32_t length) {
  // A quarter of the runs is sequentially consistent; the others spread over the rates, because
  // what is rare in one program (a pad read once) is common in another (a row of data).
  static constexpr double kRates[] = {0, 0.2, 1, 5, 1, 20};
  static constexpr std::uint32_t kBudgets[] = {1, 2, 4, ~std::uint32_t{0}};
  for (const DecisionKind kind :
       {DecisionKind::read, DecisionKind::coherence, DecisionKind::miss}) {
    chance_[static_cast<int>(kind)] =
        random.below(4) == 0 ? 0 : threshold(stale * kRates[random.below(6)]);
  }
  left_ = random.below(4) == 0 || stale <= 0 ? 0 : kBudgets[random.below(4)];
  // Half of the runs keep the lanes of a warp together: splits multiply the points of a run.
  static constexpr double kSplits[] = {0, 0, 0.02, 0.2};
  chance_[static_cast<int>(DecisionKind::split)] = threshold(kSplits[random.below(4)]);
  behind_ = random;
  static constexpr double kBehind[] = {0, 0, 0.1, 0.5};
  chance_[static_cast<int>(DecisionKind::behind)] = threshold(kBehind[behind_.below(4)]);
  oldest_ = random.below(2) == 0;
  sums_ = random.below(2) == 0;
  // Last: a search without faults draws what it always drew.
  if (faults.any()) draw_faults(random, faults, length);
}

void Deviations::draw_faults(Random& random, const FaultSpec& faults, std::uint32_t length) {
  constexpr std::uint32_t kUnknownLength = 512;
  if (length == 0) length = kUnknownLength;
  span_bits_ = static_cast<std::uint32_t>(std::bit_width(length)) + 1;
  planned_count_ = next_planned_ = step_questions_ = 0;
  for (int k = 0; k < kFaultKinds; ++k) {
    const auto kind = static_cast<FaultKind>(k);
    const FaultRate& rate = faults[kind];
    // A kind with a count is absent from a third of the runs, so that each is met alone too.
    const std::uint32_t count =
        rate.count == 0 || random.below(3) == 0 ? 0 : 1 + random.below(rate.count);
    fault_chance_[k] = threshold(rate.chance);
    faults_left_[k] = rate.chance > 0 ? ~std::uint32_t{0} : count;
    if (kind == FaultKind::late_signal || kind == FaultKind::dirty_pad) {
      // How many questions there will be is not known: any of the first, or one far on.
      static constexpr double kChances[] = {0.5, 0.2, 0.05};
      if (rate.chance == 0) fault_chance_[k] = threshold(kChances[random.below(3)]);
      continue;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      planned_[planned_count_++] = {1 + random.below(length), kind};
    }
  }
  std::sort(planned_.begin(), planned_.begin() + planned_count_,
            [](const Planned& a, const Planned& b) { return a.at < b.at; });
}

// Short ones and long ones alike.
std::uint32_t Deviations::span(Random& random) const {
  const std::uint32_t most = std::min(kMostSpan, 1u << (1 + random.below(span_bits_)));
  return 1 + random.below(most);
}

bool Deviations::happens(Random& random, FaultKind kind) {
  const auto k = static_cast<std::size_t>(kind);
  if (faults_left_[k] == 0 || !random.chance(fault_chance_[k])) return false;
  --faults_left_[k];
  return true;
}

std::uint32_t Deviations::step_fault(Random& random) {
  ++step_questions_;
  if (next_planned_ < planned_count_ && step_questions_ >= planned_[next_planned_].at) {
    return encode(StepFault{planned_[next_planned_++].kind, span(random)});
  }
  for (const FaultKind kind :
       {FaultKind::kill, FaultKind::restart, FaultKind::pause, FaultKind::delay}) {
    const std::uint64_t chance = fault_chance_[static_cast<std::size_t>(kind)];
    if (chance > 0 && random.chance(chance)) return encode(StepFault{kind, span(random)});
  }
  return 0;
}

std::uint32_t Deviations::choose(Random& random, DecisionKind kind, std::uint32_t options) {
  if (kind == DecisionKind::sum || kind == DecisionKind::overlap) {
    return sums_ ? random.below(options) : 0;
  }
  if (kind == DecisionKind::split) {
    if (!random.chance(chance_[static_cast<int>(kind)])) return 0;
    return 1 + random.below(options - 1);
  }
  if (kind == DecisionKind::behind) {
    return behind_.chance(chance_[static_cast<int>(kind)]) ? 1 : 0;
  }
  if (kind == DecisionKind::timeout) return random.below(2);
  switch (kind) {
    case DecisionKind::fault:
      return step_fault(random);
    case DecisionKind::late:
      return happens(random, FaultKind::late_signal) ? std::min(span(random), options - 1) : 0;
    case DecisionKind::dirty:
      return happens(random, FaultKind::dirty_pad) ? 1 + random.below(options - 1) : 0;
    default:
      break;
  }
  if (left_ == 0 || !random.chance(chance_[static_cast<int>(kind)])) return 0;
  --left_;
  return oldest_ ? options - 1 : 1 + random.below(options - 1);
}

}  // namespace ringfence::schedule

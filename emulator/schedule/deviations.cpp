#include "emulator/schedule/strategies.hpp"

namespace ringfence::schedule {

void Deviations::draw(Random& random, double stale) {
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
  oldest_ = random.below(2) == 0;
  sums_ = random.below(2) == 0;
}

std::uint32_t Deviations::choose(Random& random, DecisionKind kind, std::uint32_t options) {
  if (kind == DecisionKind::sum) return sums_ ? random.below(options) : 0;
  if (kind == DecisionKind::split) {
    if (!random.chance(chance_[static_cast<int>(kind)])) return 0;
    return 1 + random.below(options - 1);
  }
  if (left_ == 0 || !random.chance(chance_[static_cast<int>(kind)])) return 0;
  --left_;
  return oldest_ ? options - 1 : 1 + random.below(options - 1);
}

}  // namespace ringfence::schedule

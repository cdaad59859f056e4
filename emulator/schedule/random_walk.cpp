#include "emulator/schedule/strategies.hpp"

namespace ringfence::schedule {

void RandomStrategy::begin(std::uint32_t expected_points) {
  // Few at each point: where each rank is a process, such a run takes as long as five others.
  static constexpr double kSwitch[] = {1, 0.5, 0.25, 0.125, 0.125, 0.06, 0.03, 0.03};
  switch_chance_ = threshold(kSwitch[random_.below(8)]);
  deviations_.draw(random_, stale_, faults_, expected_points);
}

AgentId RandomStrategy::pick(const ReadyView& ready, AgentId current, bool current_ready,
                             std::uint64_t, std::uint32_t) {
  if (current_ready && !random_.chance(switch_chance_)) return current;
  return ready.at(random_.below(ready.count()));
}

}  // namespace ringfence::schedule

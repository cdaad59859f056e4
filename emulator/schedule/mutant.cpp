#include <algorithm>

#include "emulator/schedule/strategies.hpp"

namespace ringfence::schedule {

MutantStrategy::MutantStrategy(const StrategySpec& spec, std::span<const Decision> decisions,
                               const Profile* profile, std::pmr::memory_resource* memory)
    : random_(spec.seed),
      decisions_(changed(decisions, random_, change_, memory)),
      replay_(decisions_, memory),
      by_pos_(change_ == Change::other_end && random_.below(4) != 0),
      walk_(spec),
      pos_(spec, profile, memory) {}

std::pmr::vector<Decision> MutantStrategy::changed(std::span<const Decision> decisions,
                                                   Random& random, Change& change,
                                                   std::pmr::memory_resource* memory) {
  static constexpr Change kChanges[] = {Change::other_end, Change::other_end, Change::fewer,
                                        Change::one_more};
  change = kChanges[random.below(4)];
  std::pmr::vector<Decision> out(decisions.begin(), decisions.end(), memory);
  const auto n = static_cast<std::uint32_t>(out.size());
  if (change == Change::other_end) {
    out.resize(random.below(n + 1));
  } else if (change == Change::fewer && n > 0) {
    for (std::uint32_t i = 1 + random.below(3); i > 0 && !out.empty(); --i) {
      out.erase(out.begin() + random.below(static_cast<std::uint32_t>(out.size())));
    }
  }
  return out;
}

void MutantStrategy::begin(std::uint32_t expected_points) {
  replay_.begin(expected_points);
  if (by_pos_) {
    pos_.begin(expected_points);
  } else {
    walk_.begin(expected_points);
  }
  more_at_ = 1 + random_.below(std::max(expected_points, 1u));
  step_ = 0;
}

AgentId MutantStrategy::pick(const ReadyView& ready, AgentId current, bool current_ready,
                             std::uint64_t label, std::uint32_t point) {
  ++step_;
  const bool other_end = change_ == Change::other_end && replay_.taken() == decisions_.size();
  if (by_pos_) {
    // It follows what steps from the begin on.
    const AgentId own = pos_.pick(ready, current, current_ready, label, point);
    if (other_end) return own;
    const AgentId next = replay_.pick(ready, current, current_ready, label, point);
    pos_.took(next);
    return next;
  }
  if (other_end) {
    return walk_.pick(ready, current, current_ready, label, point);
  }
  if (change_ == Change::one_more && step_ == more_at_)
    return ready.at(random_.below(ready.count()));
  return replay_.pick(ready, current, current_ready, label, point);
}

std::uint32_t MutantStrategy::choose(DecisionKind kind, std::uint64_t label, std::uint32_t point,
                                     std::uint32_t options) {
  if (change_ == Change::other_end && replay_.taken() == decisions_.size()) {
    return by_pos_ ? pos_.choose(kind, label, point, options)
                   : walk_.choose(kind, label, point, options);
  }
  return replay_.choose(kind, label, point, options);
}

}  // namespace ringfence::schedule

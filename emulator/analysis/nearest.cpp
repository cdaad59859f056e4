#include "emulator/analysis/nearest.hpp"

#include <algorithm>

#include "emulator/analysis/instance.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/search.hpp"
#include "emulator/schedule/shrink.hpp"

namespace ringfence::analysis {
namespace {

constexpr std::uint64_t kDrawn = 40;  // where no choice can be left out

// How many events both begin with.
std::size_t common(const schedule::Outcome& a, const schedule::Outcome& b) {
  const std::size_t both = std::min(a.history.size(), b.history.size());
  std::size_t i = 0;
  while (i < both && a.history[i].label == b.history[i].label &&
         a.history[i].site == b.history[i].site && a.history[i].value == b.history[i].value) {
    ++i;
  }
  return i;
}

}  // namespace

std::optional<schedule::Outcome> nearest_passing(const Subject& subject,
                                                 const trace::Trace& failing,
                                                 const schedule::Outcome& outcome, double seconds) {
  if (outcome.history.empty()) return std::nullopt;
  // The outer one has no end: see interrupt.hpp.
  const schedule::TimeLimit none(0);
  const schedule::TimeLimit limit(seconds);
  schedule::RunSpec base;
  base.policy = failing.header.policy;
  base.ignore = failing.header.ignore;
  base.survive = failing.header.survive;
  std::optional<schedule::Outcome> best;
  std::size_t along = 0;
  const auto take = [&](schedule::Outcome&& run) {
    if (schedule::failure(run) || run.end != schedule::RunEnd::complete) return false;
    const std::size_t n = common(outcome, run);
    if (best && n <= along) return true;
    along = n;
    best = std::move(run);
    return true;
  };
  const Instance instance = make_inline_instance(subject);
  // The last choices first: what goes before them is the same.
  for (std::size_t k = failing.decisions.size(); k-- > 0 && !schedule::must_stop();) {
    std::vector<schedule::Decision> without = failing.decisions;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(k));
    schedule::RunSpec spec = schedule::replay_spec(base, std::move(without));
    spec.history = true;
    if (take(instance.executor->run(spec))) break;
  }
  const bool left_out = best.has_value();
  for (std::uint64_t n = 0; !left_out && n < kDrawn && !schedule::must_stop(); ++n) {
    schedule::RunSpec spec = base;
    spec.strategy.kind = schedule::StrategySpec::Kind::random;
    spec.strategy.seed = schedule::schedule_seed(1, n);
    spec.history = true;
    take(instance.executor->run(spec));
  }
  return best;
}

}  // namespace ringfence::analysis

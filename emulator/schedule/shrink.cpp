#include "emulator/schedule/shrink.hpp"

#include <algorithm>
#include <chrono>

#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::schedule {

namespace {

using Clock = std::chrono::steady_clock;

class Shrinker {
 public:
  Shrinker(Executor& executor, const RunSpec& base, machine::FindingKind kind,
           const ShrinkLimits& limits)
      : executor_(executor),
        base_(base),
        kind_(kind),
        limits_(limits),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(limits.seconds))) {}

  Shrunk run(const Outcome& found) {
    best_ = found;
    if (!try_decisions({})) {
      // Rounds until one changes nothing: a choice may only go once another has gone.
      while (more() && round()) {
      }
      shorten();
    }
    return {std::move(best_), runs_, more()};
  }

 private:
  bool more() const { return runs_ < limits_.runs && Clock::now() < end_ && !must_stop(); }

  // Keeps the run if it fails alike with fewer choices. The choices recorded are those that took
  // effect: one that names a point which no longer comes is gone as well.
  bool try_decisions(std::vector<Decision> decisions) {
    ++runs_;
    Outcome outcome = executor_.run(replay_spec(base_, std::move(decisions)));
    const auto f = failure(outcome);
    if (!f || f->kind != kind_ || outcome.decisions.size() >= best_.decisions.size()) return false;
    best_ = std::move(outcome);
    return true;
  }

  bool round() {
    bool smaller = false;
    std::size_t chunk = std::max<std::size_t>(1, best_.decisions.size() / 2);
    for (;;) {
      // From the end: late choices are the likeliest to be unneeded, and those after the failing
      // step always are.
      std::size_t end = best_.decisions.size();
      while (end > 0 && more()) {
        const std::size_t begin = end > chunk ? end - chunk : 0;
        std::vector<Decision> fewer(best_.decisions.begin(), best_.decisions.begin() + begin);
        fewer.insert(fewer.end(), best_.decisions.begin() + end, best_.decisions.end());
        if (try_decisions(std::move(fewer))) smaller = true;
        end = std::min(begin, best_.decisions.size());
      }
      if (chunk == 1 || !more()) return smaller;
      chunk = (chunk + 1) / 2;
    }
  }

  // Pauses, delays and late signals as short as they may be: 1 point, or by halves.
  void shorten() {
    for (std::size_t i = 0; i < best_.decisions.size(); ++i) {
      while (more()) {
        const std::uint32_t now = span_of(best_.decisions[i]);
        if (now <= 1 || !(shorter(i, 1) || shorter(i, now / 2))) break;
        if (i >= best_.decisions.size()) return;
      }
    }
  }

  static std::uint32_t span_of(const Decision& d) {
    if (d.kind == DecisionKind::late) return static_cast<std::uint32_t>(d.value);
    const auto fault = d.kind == DecisionKind::fault ? decode_step_fault(d.value) : std::nullopt;
    return fault && (fault->kind == FaultKind::pause || fault->kind == FaultKind::delay)
               ? fault->span
               : 0;
  }

  bool shorter(std::size_t i, std::uint32_t span) {
    std::vector<Decision> decisions(best_.decisions.begin(), best_.decisions.end());
    Decision& d = decisions[i];
    d.value = d.kind == DecisionKind::late
                  ? span
                  : encode(StepFault{decode_step_fault(d.value)->kind, span});
    ++runs_;
    Outcome outcome = executor_.run(replay_spec(base_, std::move(decisions)));
    const auto f = failure(outcome);
    if (!f || f->kind != kind_ || outcome.decisions.size() > best_.decisions.size()) return false;
    best_ = std::move(outcome);
    return true;
  }

  Executor& executor_;
  const RunSpec& base_;
  const machine::FindingKind kind_;
  const ShrinkLimits& limits_;
  const Clock::time_point end_;
  Outcome best_;
  std::uint32_t runs_ = 0;
};

}  // namespace

RunSpec replay_spec(const RunSpec& base, std::vector<Decision> decisions) {
  RunSpec spec = base;
  spec.strategy.kind = StrategySpec::Kind::replay;
  spec.decisions = std::move(decisions);
  return spec;
}

Shrunk shrink(Executor& executor, const RunSpec& base, const Outcome& found,
              machine::FindingKind kind, const ShrinkLimits& limits) {
  return Shrinker(executor, base, kind, limits).run(found);
}

}  // namespace ringfence::schedule

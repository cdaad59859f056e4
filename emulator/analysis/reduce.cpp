#include "emulator/analysis/reduce.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "emulator/analysis/instance.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/search.hpp"
#include "verify/error.hpp"

namespace ringfence::analysis {

namespace {

// The failing run of `subject` that a short search finds, if there is one of this kind.
bool fails_alike(const Subject& subject, const schedule::RunSpec& base, machine::FindingKind kind,
                 const ReduceLimits& limits, double seconds, schedule::Outcome& outcome) {
  try {
    const Instance instance = make_inline_instance(subject);
    schedule::SearchSpec spec;
    spec.run = base;
    spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
    spec.schedules = limits.schedules;
    spec.seconds = seconds;
    schedule::SearchResult r = schedule::search({instance.executor.get()}, spec);
    const auto f = r.found ? schedule::failure(r.outcome) : std::nullopt;
    if (!f || f->kind != kind) return false;
    outcome = std::move(r.outcome);
    return true;
  } catch (const std::invalid_argument&) {
    return false;  // not a legal configuration
  } catch (const verify::InputError&) {
    return false;
  }
}

}  // namespace

Reduced reduce(const SubjectPtr& subject, const schedule::RunSpec& base,
               const schedule::Outcome& outcome, machine::FindingKind kind,
               const ReduceLimits& limits) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto left = [&] {
    return limits.seconds - std::chrono::duration<double>(Clock::now() - begin).count();
  };
  Reduced best{subject, outcome, false};
  // Each success starts over from the greatest reductions of the smaller subject.
  for (bool again = true; again;) {
    again = false;
    for (const SubjectPtr& c : best.subject->smaller()) {
      if (left() <= 0 || schedule::must_stop()) return best;
      schedule::Outcome found;
      if (!fails_alike(*c, base, kind, limits, left(), found)) continue;
      best = {c, std::move(found), true};
      again = true;
      break;
    }
  }
  return best;
}

}  // namespace ringfence::analysis

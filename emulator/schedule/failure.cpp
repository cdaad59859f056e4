#include "emulator/schedule/failure.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "emulator/schedule/interrupt.hpp"

namespace ringfence::schedule {

namespace {

bool same_access(const machine::AccessInfo& a, const machine::AccessInfo& b) {
  return a.kind == b.kind && a.order == b.order && a.scope == b.scope && a.proxy == b.proxy &&
         a.label == b.label && a.step == b.step && a.site == b.site && a.region == b.region &&
         a.offset == b.offset && a.bytes == b.bytes;
}

}  // namespace

bool stopped_by_fault(const Outcome& outcome) {
  if (outcome.survive || outcome.end != RunEnd::deadlock) return false;
  if (!outcome.findings.empty() && !waits_for_ever(outcome.findings.front().kind)) return false;
  return std::any_of(outcome.faults.begin(), outcome.faults.end(), [](const AppliedFault& f) {
    return f.kind == FaultKind::kill || f.kind == FaultKind::restart;
  });
}

std::optional<machine::Finding> failure(const Outcome& outcome) {
  if (!outcome.lost.empty()) return std::nullopt;  // what is said of the run is not whole
  if (stopped_by_fault(outcome)) return std::nullopt;
  if (!outcome.findings.empty()) return outcome.findings.front();
  return std::nullopt;
}

bool LostRank::crashed() const {
  if (stalled) return false;
  if (!WIFSIGNALED(wait_status)) return true;
  switch (WTERMSIG(wait_status)) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGSYS:
      return true;
    default:
      return false;
  }
}

Outcome run_to_its_end(Executor& executor, const RunSpec& spec) {
  constexpr int kAgain = 2;
  for (int again = 0;; ++again) {
    Outcome out = executor.run(spec);
    if (out.lost.empty() || again == kAgain || must_stop()) return out;
  }
}

bool undecided(const Outcome& outcome) {
  return !failure(outcome) && outcome.end != RunEnd::complete && outcome.end != RunEnd::deadlock;
}

bool same_finding(const machine::Finding& a, const machine::Finding& b) {
  return a.kind == b.kind && a.missing == b.missing && a.has_first == b.has_first &&
         a.has_second == b.has_second && (!a.has_first || same_access(a.first, b.first)) &&
         (!a.has_second || same_access(a.second, b.second));
}

bool same_run(const Outcome& a, const Outcome& b) {
  const auto fa = failure(a);
  const auto fb = failure(b);
  return a.end == b.end && a.digest == b.digest && a.points == b.points && a.steps == b.steps &&
         a.decisions == b.decisions && fa.has_value() == fb.has_value() &&
         (!fa || same_finding(*fa, *fb));
}

}  // namespace ringfence::schedule

#include "emulator/schedule/failure.hpp"

#include <algorithm>

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
  if (!outcome.findings.empty() &&
      outcome.findings.front().kind != machine::FindingKind::deadlock) {
    return false;
  }
  return std::any_of(outcome.faults.begin(), outcome.faults.end(), [](const AppliedFault& f) {
    return f.kind == FaultKind::kill || f.kind == FaultKind::restart;
  });
}

std::optional<machine::Finding> failure(const Outcome& outcome) {
  if (!outcome.lost.empty()) {
    for (const machine::Finding& f : outcome.findings) {
      if (f.kind == machine::FindingKind::rank_lost) return f;
    }
    machine::Finding f;
    f.kind = machine::FindingKind::rank_lost;
    return f;
  }
  if (stopped_by_fault(outcome)) return std::nullopt;
  if (!outcome.findings.empty()) return outcome.findings.front();
  return std::nullopt;
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

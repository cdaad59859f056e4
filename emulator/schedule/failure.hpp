#pragma once
// What counts as the failure of a run, for searching, shrinking and replaying.

#include <optional>

#include "emulator/schedule/executor.hpp"

namespace ringfence::schedule {

// The finding of a run that failed; none if it is clean, ended without a verdict, or got stuck in a
// way that is passed over. A lost process is no finding.
std::optional<machine::Finding> failure(const Outcome& outcome);

// Whether a finding of that kind is of agents that wait for ever: for others, or for a place on the
// GPU.
constexpr bool waits_for_ever(machine::FindingKind kind) {
  return kind == machine::FindingKind::deadlock || kind == machine::FindingKind::residency;
}

// A deadlock after a fault that may leave others waiting (kill, restart), in a run that need not
// survive it: the protocol kept its promise. Such a run has no failure and is not undecided.
bool stopped_by_fault(const Outcome& outcome);

// A run without a verdict: it was stopped, met the limit of points, or lost a process.
bool undecided(const Outcome& outcome);

// Runs it; where a process is lost, which is no choice of the schedule, once or twice more.
Outcome run_to_its_end(Executor& executor, const RunSpec& spec);

// Whether two findings are the same one, field by field.
bool same_finding(const machine::Finding& a, const machine::Finding& b);

// Whether a run is the recorded one, bit for bit: equal choices, values and finding.
bool same_run(const Outcome& a, const Outcome& b);

}  // namespace ringfence::schedule

#pragma once
// check: every execution of a subject within bounds, in each boundary mode.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emulator/analysis/budget.hpp"
#include "emulator/analysis/finding.hpp"
#include "emulator/analysis/task.hpp"
#include "emulator/analysis/watch.hpp"
#include "emulator/check/explorer.hpp"

namespace ringfence::analysis {

using LeftByMode = std::map<machine::Boundary, check::Left>;

struct ExhaustiveSpec {
  std::uint64_t executions = 0;  // at most in each mode; 0: no limit
  unsigned jobs = 1;
  bool sets = true;          // arrivals as sets where nothing can tell their order
  ExecutorOptions executor;  // findings are confirmed over
  bool shrink = true, remedies = true;
  double remedy_seconds = 2;  // for all of a finding's
};

struct ExhaustiveMode {
  machine::Boundary mode = machine::Boundary::strict;
  bool claimed = false, judged = false;
  check::CheckResult result;
  std::optional<Settled> settled;  // a finding, to be written by write_finding
  // The first few lines on what was left out, which is why it is unknown (unknown.hpp).
  std::vector<std::string> left_out;

  Verdict verdict() const;
};

struct ExhaustiveResult {
  std::vector<ExhaustiveMode> modes;
  Notes notes;  // of the default schedule, if some mode passes
};

// `left` is what earlier searches left, by mode, and then what these leave. Throws what `describe`
// knows; an interruption ends it, with the modes that are left unknown.
ExhaustiveResult explore(const Task& task, const ExhaustiveSpec& spec, const Budget& budget,
                         LeftByMode& left, const Watch& watch);

// Every execution of a subject in the mode of `spec.run`, with the verdict that explore() has: each
// order of sums, and no pass where something that decides was not explored.
check::CheckResult explore_subject(const Subject& subject, check::CheckSpec spec, unsigned jobs);

// Every execution in one mode, told as a search by schedules is: each is one.
schedule::SearchResult explore_mode(const Task& task, machine::Boundary mode,
                                    std::uint64_t executions, unsigned jobs);

}  // namespace ringfence::analysis

#pragma once
// A smaller subject that fails in the same way: fewest calls, ranks, blocks, tokens, and the
// smallest matrices, in this order of worth to a reader.

#include <vector>

#include "emulator/analysis/subject.hpp"
#include "emulator/schedule/executor.hpp"

namespace ringfence::analysis {

struct ReduceLimits {
  std::uint64_t schedules = 300;  // for each configuration tried
  double seconds = 15;            // for all of them together
};

struct Reduced {
  SubjectPtr subject;
  schedule::Outcome outcome;  // a failing run of it
  bool smaller = false;       // than what was given
};

// `outcome` is a run of `subject` under `base` that failed with `kind`. Runs inline.
Reduced reduce(const SubjectPtr& subject, const schedule::RunSpec& base,
               const schedule::Outcome& outcome, machine::FindingKind kind,
               const ReduceLimits& limits = {});

}  // namespace ringfence::analysis

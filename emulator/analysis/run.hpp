#pragma once
// run: a subject once, its ranks running freely, compared with what it should give.

#include <string>
#include <vector>

#include "emulator/analysis/instance.hpp"
#include "emulator/analysis/task.hpp"
#include "emulator/analysis/watch.hpp"
#include "verify/compare.hpp"

namespace ringfence::analysis {

struct RunResult {
  Instance instance;  // that ran it
  schedule::RunSpec spec;
  schedule::Outcome outcome;
  bool complete = false;
  std::vector<verify::Comparison> comparisons;  // of a complete run
  ReplicaCheck replicas;
  bool numbers_wrong = false, replicas_wrong = false;  // and not passed over
  Verdict verdict = Verdict::unknown;
  std::string kind;  // of the finding; empty: none
  Notes notes;
  double seconds = 0, preparing = 0;
};

// One run has one mode: the one judged, or the first that a case claims, or the strictest that a
// protocol does.
machine::Boundary mode_of(const Task& task);

// Wrong numbers do not end the run: the comparisons show all of them. Throws Interrupted, or what
// `describe` knows.
RunResult run(const Task& task, machine::Boundary mode, const ExecutorOptions& executor,
              bool history, const Watch& watch);

}  // namespace ringfence::analysis

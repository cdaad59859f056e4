#pragma once
// replay: a recorded run once more, bit for bit.

#include <string>

#include "emulator/analysis/instance.hpp"
#include "emulator/analysis/remedy.hpp"
#include "emulator/analysis/watch.hpp"
#include "emulator/schedule/executor.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::analysis {

struct ReplaySpec {
  ExecutorOptions executor;
  bool remedies = true;  // try what would make it pass
  bool token = false;    // the trace was one: it has no accesses and no counts to compare
  double remedy_seconds = 2;
  Watch watch;
};

struct Replayed {
  Instance instance;      // that ran it
  schedule::Outcome run;  // with its history
  trace::Trace now;       // of this run
  // Where the run differs from the recorded one; empty if nowhere.
  std::string difference;
  Remedies remedies;
};

// `subject` is that of the trace's configuration. Where ranks were lost (run.lost) nothing else is
// there. Throws Interrupted, or what `describe` knows.
Replayed replay(const Subject& subject, const trace::Trace& recorded, const ReplaySpec& spec);

// An input file's content is that of the trace. Throws InputError.
void check_input(const Subject& subject, const std::string& recorded_digest);

}  // namespace ringfence::analysis

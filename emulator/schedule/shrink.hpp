#pragma once
// Makes a failing run small: fewest choices that differ from the default.
//
// Choices are kept or dropped; what remains is replayed, and counts as smaller only if it fails
// with the same kind of finding. Dropping is delta debugging (Zeller and Hildebrandt 2002): halves,
// then quarters, down to single choices, until no single one can go. A pick that differs from the
// default is a context switch, so this leaves the fewest switches, old reads and faults. What a
// pause, a delay or a late signal lasts is then shortened.

#include <cstdint>
#include <vector>

#include "emulator/schedule/executor.hpp"

namespace ringfence::schedule {

struct ShrinkLimits {
  std::uint32_t runs = 5000;
  double seconds = 10;
};

struct Shrunk {
  Outcome outcome;         // of the smallest run found; its decisions replay it
  std::uint32_t runs = 0;  // tried
  bool minimal = false;    // no single choice can be left out (the limits were not met)
};

// `found` failed under `base` (its policy, ignored kinds, limit of points) with `kind`. The result
// is a run that was executed: its finding and digest are its own. must_stop() ends it with the best
// so far.
Shrunk shrink(Executor& executor, const RunSpec& base, const Outcome& found,
              machine::FindingKind kind, const ShrinkLimits& limits = {});

// The specification that re-runs `decisions` under `base`.
RunSpec replay_spec(const RunSpec& base, std::vector<Decision> decisions);

}  // namespace ringfence::schedule

#pragma once
// The schedule nearest to a failing one that passes: what a reader lays the finding beside.

#include <optional>

#include "emulator/analysis/subject.hpp"
#include "emulator/schedule/executor.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::analysis {

// Of the runs that leave one of the failing run's choices out, and where none of these passes, of
// some that are drawn, the one that goes along with the failing run for longest. With its history.
// Nothing where none passes, or none within the time. Runs inline, on the thread that makes time
// limits.
std::optional<schedule::Outcome> nearest_passing(const Subject& subject,
                                                 const trace::Trace& failing,
                                                 const schedule::Outcome& outcome,
                                                 double seconds = 2);

}  // namespace ringfence::analysis

#pragma once
// What a verdict on a case leaves open, as it is told.

#include "emulator/analysis/notes.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

// A line for each list that has anything, and for each remark.
void print_notes(const Notes& notes);
// "values_not_judged", "never_written", "unused_suppressions", "remarks" (time-outs that are not
// taken among them) and "left_out".
void add_notes(Json& result, const Notes& notes);

}  // namespace ringfence::cli

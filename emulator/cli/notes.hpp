#pragma once
// What a verdict on a case leaves open: values that nothing judges, and bytes that are read and
// never written. They are told with the verdict and do not change it.

#include <string>
#include <vector>

#include "emulator/cli/case_options.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::cli {

struct Notes {
  std::vector<std::string> values_not_judged;
  std::vector<std::string> never_written;
  std::vector<std::string> unused_suppressions;  // of all runs of this process
  bool any() const {
    return !values_not_judged.empty() || !never_written.empty() || !unused_suppressions.empty();
  }
};

// Of the runs that the program's executor has made; none for protocols. The executor must live.
Notes notes_of(const schedule::Program& program);
// Of the default schedule, which this runs; none for protocols.
Notes notes_of_default_schedule(const Case& c, machine::Boundary mode);

// A line for each list that has anything.
void print_notes(const Notes& notes);
// "values_not_judged", "never_written" and "unused_suppressions".
void add_notes(Json& result, const Notes& notes);

}  // namespace ringfence::cli

#pragma once
// What a verdict on a case leaves open: values that nothing judges, bytes that are read and never
// written, and what kernels do that some would not call right. They are told with the verdict and
// do not change it.

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
  std::vector<std::string> remarks;
  std::vector<std::string> unexplored;  // orders that an exhaustive search leaves out
  // What kernels use and the model does not follow: a search that finds nothing has no proof.
  std::vector<std::string> left_out;
  bool any() const {
    return !values_not_judged.empty() || !never_written.empty() || !unused_suppressions.empty() ||
           !remarks.empty() || !unexplored.empty() || !left_out.empty();
  }
};

// Of the runs that the program's executor has made; none for protocols. The executor must live.
Notes notes_of(const schedule::Program& program);
// Joins what another executor's runs showed.
void add(Notes& notes, const Notes& other);
// Of the default schedule, which this runs; none for protocols.
Notes notes_of_default_schedule(const Case& c, machine::Boundary mode);

// A line for each list that has anything, and for each remark.
void print_notes(const Notes& notes);
// "values_not_judged", "never_written", "unused_suppressions", "remarks" and "left_out".
void add_notes(Json& result, const Notes& notes);

}  // namespace ringfence::cli

#pragma once
// What a verdict on a case leaves open: values that nothing judges, bytes that are read and never
// written, and what kernels do that some would not call right. They are told with the verdict and
// do not change it.

#include <string>
#include <vector>

namespace ringfence::analysis {

struct Notes {
  std::vector<std::string> values_not_judged;
  std::vector<std::string> never_written;
  std::vector<std::string> unused_suppressions;  // of all runs of this process
  std::vector<std::string> remarks;
  std::vector<std::string> unexplored;  // orders that an exhaustive search leaves out
  // What kernels use and the model does not follow: a search that finds nothing has no proof.
  std::vector<std::string> left_out;
  std::vector<std::string> time_outs;  // of waits, that lead on and that no search takes
  // Whether something that decides was not explored.
  bool leave_out() const { return !unexplored.empty() || !time_outs.empty(); }
  bool any() const {
    return !values_not_judged.empty() || !never_written.empty() || !unused_suppressions.empty() ||
           !remarks.empty() || !unexplored.empty() || !left_out.empty() || !time_outs.empty();
  }
};

// Joins what another executor's runs showed.
void add(Notes& notes, const Notes& other);

}  // namespace ringfence::analysis

#include "emulator/analysis/notes.hpp"

#include <algorithm>

namespace ringfence::analysis {

void add(Notes& notes, const Notes& other) {
  if (notes.values_not_judged.empty()) notes.values_not_judged = other.values_not_judged;
  if (notes.never_written.empty()) notes.never_written = other.never_written;
  if (notes.unused_suppressions.empty()) notes.unused_suppressions = other.unused_suppressions;
  if (notes.left_out.empty()) notes.left_out = other.left_out;
  const auto join = [](std::vector<std::string>& all, const std::vector<std::string>& others) {
    for (const std::string& text : others) {
      if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
    }
  };
  join(notes.remarks, other.remarks);
  join(notes.time_outs, other.time_outs);
}

}  // namespace ringfence::analysis

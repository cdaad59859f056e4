#include "emulator/analysis/notes.hpp"

#include <algorithm>

namespace ringfence::analysis {

void add(Notes& notes, const Notes& other) {
  if (notes.values_not_judged.empty()) notes.values_not_judged = other.values_not_judged;
  if (notes.never_written.empty()) notes.never_written = other.never_written;
  if (notes.unused_suppressions.empty()) notes.unused_suppressions = other.unused_suppressions;
  if (notes.left_out.empty()) notes.left_out = other.left_out;
  for (const std::string& remark : other.remarks) {
    if (std::find(notes.remarks.begin(), notes.remarks.end(), remark) == notes.remarks.end()) {
      notes.remarks.push_back(remark);
    }
  }
}

}  // namespace ringfence::analysis

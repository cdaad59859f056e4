#include "emulator/cli/notes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace ringfence::cli {

void print_notes(const Notes& notes) {
  if (!notes.values_not_judged.empty()) {
    fmt::print("values not judged: {}\n", fmt::join(notes.values_not_judged, ", "));
  }
  if (!notes.never_written.empty()) {
    fmt::print("read but never written: {}\n", fmt::join(notes.never_written, "; "));
  }
  if (!notes.unused_suppressions.empty()) {
    fmt::print("ignored nothing: {}\n", fmt::join(notes.unused_suppressions, "; "));
  }
  for (const std::string& remark : notes.remarks) fmt::print("note: {}\n", remark);
  for (const std::string& what : notes.left_out) fmt::print("left out: {}\n", what);
  for (const std::string& order : notes.unexplored) fmt::print("not explored: {}\n", order);
  for (const std::string& text : notes.time_outs) fmt::print("not explored: {}\n", text);
}

void add_notes(Json& result, const Notes& notes) {
  result["values_not_judged"] = notes.values_not_judged;
  result["never_written"] = notes.never_written;
  result["unused_suppressions"] = notes.unused_suppressions;
  result["remarks"] = notes.remarks;
  for (const std::string& text : notes.time_outs) result["remarks"].push_back(text);
  result["left_out"] = notes.left_out;
}

}  // namespace ringfence::cli

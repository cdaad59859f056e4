#include "emulator/cli/notes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "emulator/cases/case_program.hpp"
#include "emulator/cli/case_program.hpp"
#include "emulator/cli/finding.hpp"
#include "emulator/cli/instance.hpp"

namespace ringfence::cli {

Notes notes_of(const schedule::Program& program) {
  const auto* const c = dynamic_cast<const cases::CaseProgram*>(&program);
  if (c == nullptr) return {};
  return {c->values_not_judged(), c->never_written(), c->unused_suppressions(),
          c->remarks(),           c->unexplored(),    c->left_out()};
}

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

Notes notes_of_default_schedule(const Case& c, machine::Boundary mode) {
  if (!is_case(c.config)) return {};
  const Instance instance = make_inline_instance(c.config);
  schedule::RunSpec spec = run_spec(c, mode);
  spec.strategy.kind = schedule::StrategySpec::Kind::first;
  instance.executor->run(spec);
  return notes_of(*instance.program);
}

void print_notes(const Notes& notes) {
  if (!notes.values_not_judged.empty()) {
    fmt::print("values not judged: {}\n", fmt::join(notes.values_not_judged, ", "));
  }
  if (!notes.never_written.empty()) {
    fmt::print("read and never written: {}\n", fmt::join(notes.never_written, "; "));
  }
  if (!notes.unused_suppressions.empty()) {
    fmt::print("ignored nothing: {}\n", fmt::join(notes.unused_suppressions, "; "));
  }
  for (const std::string& remark : notes.remarks) fmt::print("note: {}\n", remark);
  for (const std::string& what : notes.left_out) fmt::print("left out: {}\n", what);
  for (const std::string& order : notes.unexplored) fmt::print("not explored: {}\n", order);
}

void add_notes(Json& result, const Notes& notes) {
  result["values_not_judged"] = notes.values_not_judged;
  result["never_written"] = notes.never_written;
  result["unused_suppressions"] = notes.unused_suppressions;
  result["remarks"] = notes.remarks;
  result["left_out"] = notes.left_out;
}

}  // namespace ringfence::cli

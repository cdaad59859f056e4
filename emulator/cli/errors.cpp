#include "emulator/cli/errors.hpp"

#include "emulator/schedule/interrupt.hpp"

namespace ringfence::cli {

namespace {

bool finding_told = false;
bool case_is_run = false;

}  // namespace

void note_case() { case_is_run = true; }

void note_told() {
  finding_told = true;
  schedule::set_time_status(static_cast<int>(Exit::finding));
}
bool told() { return finding_told; }

Exit describe(const std::exception_ptr& error, std::string& line) {
  const Described d = analysis::describe(error);
  line = d.line;
  switch (d.kind) {
    case ErrorKind::interrupted:
      return Exit::interrupted;
    case ErrorKind::time_over:
      line = "UNKNOWN: " + line;
      return Exit::unknown;
    case ErrorKind::out_of_memory:
      line += case_is_run
                  ? "; smaller memories and grids in the case file, or fewer --jobs, need less"
                  : "; smaller --tokens, --hidden, --inner, --ranks or --jobs need less";
      return Exit::bad_input;
    case ErrorKind::input:
      return Exit::bad_input;
    case ErrorKind::internal:
      break;
  }
  return Exit::internal;
}

}  // namespace ringfence::cli

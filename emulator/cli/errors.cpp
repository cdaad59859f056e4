#include "emulator/cli/errors.hpp"

#include <new>

#include "emulator/litmus/parser.hpp"
#include "emulator/ranks/executors.hpp"
#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/trace/trace.hpp"
#include "verify/error.hpp"

namespace ringfence::cli {

namespace {

bool finding_told = false;
bool case_is_run = false;

// What memory ran out in says what was asked and what there is, or nothing.
std::string out_of_memory(const std::string& what) {
  return (what == "std::bad_alloc" ? "out of memory" : what) +
         (case_is_run ? "; smaller memories and grids in the case file, or fewer --jobs, need less"
                      : "; smaller --tokens, --hidden, --inner, --ranks or --jobs need less");
}

}  // namespace

void note_case() { case_is_run = true; }

void note_told() {
  finding_told = true;
  schedule::set_time_status(static_cast<int>(Exit::finding));
}
bool told() { return finding_told; }

Exit describe(const std::exception_ptr& error, std::string& line) {
  try {
    std::rethrow_exception(error);
  } catch (const Interrupted& e) {
    line = e.what();
    return Exit::interrupted;
  } catch (const schedule::StopRequested& e) {
    if (schedule::interrupted()) {
      line = Interrupted().what();
      return Exit::interrupted;
    }
    line = "UNKNOWN: the time was over before the inputs were prepared";
    return Exit::unknown;
  } catch (const UsageError& e) {
    line = e.what();
    return Exit::bad_input;
  } catch (const verify::InputError& e) {
    line = e.what();
    return Exit::bad_input;
  } catch (const trace::TraceError& e) {
    line = e.what();
    return Exit::bad_input;
  } catch (const litmus::ParseError& e) {
    line = e.what();
    return Exit::bad_input;
  } catch (const ranks::SegmentError& e) {
    line = e.what();
    return Exit::bad_input;
  } catch (const std::invalid_argument& e) {
    line = e.what();
    return Exit::bad_input;
  } catch (const schedule::OutOfMemory& e) {
    line = out_of_memory(e.what());
    return Exit::bad_input;
  } catch (const std::bad_alloc& e) {
    line = out_of_memory(e.what());
    return Exit::bad_input;
  } catch (const std::exception& e) {
    line = std::string("internal error: ") + e.what();
    return Exit::internal;
  } catch (...) {
    line = "internal error: an exception of unknown type";
    return Exit::internal;
  }
}

}  // namespace ringfence::cli

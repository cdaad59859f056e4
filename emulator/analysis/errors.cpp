#include "emulator/analysis/errors.hpp"

#include <new>
#include <string>

#include "emulator/cases/case_file.hpp"
#include "emulator/litmus/parser.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ranks/executors.hpp"
#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/trace/trace.hpp"
#include "verify/error.hpp"

namespace ringfence::analysis {

namespace {

// What memory ran out in says what was asked and what there is, or nothing.
std::string out_of_memory(const std::string& what) {
  return what == "std::bad_alloc" ? "out of memory" : what;
}

}  // namespace

Described describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Interrupted& e) {
    return {ErrorKind::interrupted, e.what()};
  } catch (const schedule::StopRequested&) {
    if (schedule::interrupted()) return {ErrorKind::interrupted, Interrupted().what()};
    return {ErrorKind::time_over, "the time ran out before the inputs were prepared"};
  } catch (const InputError& e) {
    return {ErrorKind::input, e.what()};
  } catch (const verify::InputError& e) {
    return {ErrorKind::input, e.what()};
  } catch (const trace::TraceError& e) {
    return {ErrorKind::input, e.what()};
  } catch (const cases::CaseError& e) {
    return {ErrorKind::input, e.what()};
  } catch (const ptx::Error& e) {
    return {ErrorKind::input, e.what()};
  } catch (const litmus::ParseError& e) {
    return {ErrorKind::input, e.what()};
  } catch (const ranks::SegmentError& e) {
    return {ErrorKind::input, e.what()};
  } catch (const std::invalid_argument& e) {
    return {ErrorKind::input, e.what()};
  } catch (const schedule::OutOfMemory& e) {
    return {ErrorKind::out_of_memory, out_of_memory(e.what())};
  } catch (const schedule::NotModelled& e) {
    return {ErrorKind::input, e.what()};
  } catch (const std::bad_alloc& e) {
    return {ErrorKind::out_of_memory, out_of_memory(e.what())};
  } catch (const std::exception& e) {
    return {ErrorKind::internal, std::string("internal error: ") + e.what()};
  } catch (...) {
    return {ErrorKind::internal, "internal error: an exception of unknown type"};
  }
}

}  // namespace ringfence::analysis

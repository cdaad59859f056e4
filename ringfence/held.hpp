#pragma once
// What the library's sources share; not installed.

#include <memory>

#include "emulator/analysis/errors.hpp"
#include "emulator/analysis/subject.hpp"
#include "emulator/schedule/executor.hpp"
#include "ringfence/case.hpp"
#include "ringfence/result.hpp"
#include "ringfence/threads.hpp"
#include "verify/tensor.hpp"

namespace ringfence {

namespace detail {

struct Held {
  analysis::SubjectPtr subject;
  std::string input_digest;
};
std::shared_ptr<Held> hold(analysis::SubjectPtr subject);

Tensor from_verify(const verify::Tensor& tensor);

[[noreturn]] inline void rethrow(const std::exception_ptr& error) {
  const analysis::Described d = analysis::describe(error);
  using From = analysis::ErrorKind;
  const auto kind = d.kind == From::input         ? Error::Kind::input
                    : d.kind == From::interrupted ? Error::Kind::interrupted
                    : d.kind == From::internal    ? Error::Kind::internal
                                                  : Error::Kind::resources;
  throw Error(kind, d.line);
}

// Whatever comes out of `f` comes out as an Error. `own`: what a program throws is its author's to
// mend, and that is who called.
template <class F>
auto as_error(F&& f, bool own = false) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const schedule::OutOfMemory&) {
    rethrow(std::current_exception());
  } catch (const schedule::ProgramError& e) {
    if (own) throw Error(Error::Kind::input, e.what());
    rethrow(std::current_exception());
  } catch (...) {
    rethrow(std::current_exception());
  }
}

}  // namespace detail

analysis::SubjectPtr make_case_subject(const Case& of);
analysis::SubjectPtr make_threads_subject(const Threads& of);

}  // namespace ringfence

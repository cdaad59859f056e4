// A kernel's outcomes by the axiomatic checker, which shares nothing with the emulator.
#pragma once

#include <stdexcept>

#include "tests/oracle/compare.hpp"

namespace ringfence::oracle {

// The kernel has what the axioms do not decide: loops but for waits, votes, bar.red; or an order of
// arrivals at its barriers is undefined.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Of all executions in order, findings passed over. Throws Unsupported.
Outcomes by_axioms(const Kernel& kernel);

// What either has and the other has not, one line each; empty: check and the axioms agree. Throws
// Unsupported, also if the check was not whole.
std::string difference_from_axioms(const Kernel& kernel, const Limits& limits);

}  // namespace ringfence::oracle

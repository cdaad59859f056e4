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

// What either has and the other has not, one line each; empty: check and the axioms agree on the
// outcomes of all executions in order (where there are no bulk copies, findings passed over), and
// check does not say PASS where the axioms have a race, or an order of arrivals that is undefined;
// nor has it a race where they have none. Throws Unsupported, also if the check was not whole.
std::string difference_from_axioms(const Kernel& kernel, const Limits& limits);

}  // namespace ringfence::oracle

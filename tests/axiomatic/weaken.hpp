// Makes programs without a race that have as many weak accesses as can be.
#pragma once

#include <cstdint>

#include "emulator/litmus/ast.hpp"

namespace ringfence::axiomatic {

// The test with some of its loads and stores made weak, and the others relaxed or stronger, so that
// no execution of it has a race by the axioms (Result::race_unobserved): one after the other in an
// order that the seed draws, each weak where it may be. Random programs with weak accesses nearly
// all race. Where the test has a race though every access of it is strong, all scopes become sys.
// Throws what check() and convert() throw.
litmus::Test weaken(const litmus::Test& test, std::uint64_t seed);

}  // namespace ringfence::axiomatic

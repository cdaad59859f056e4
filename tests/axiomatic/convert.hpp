// From a litmus test to the axiomatic checker and back to the test's final states.
#pragma once

#include <stdexcept>

#include "emulator/litmus/ast.hpp"
#include "emulator/litmus/verdict.hpp"
#include "tests/axiomatic/check.hpp"

namespace ringfence::axiomatic {

// The test uses what the model of scalars does not decide: vectors, mixed sizes, multimem,
// launches.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An element of an array is a location. names_cohere: all names of a location are one virtual
// address. Throws Unsupported.
Program convert(const litmus::Test& test, bool names_cohere = false);

// The outcomes as final states over litmus::observed_variables(test), each counted once.
litmus::States states(const litmus::Test& test, const Result& result);

}  // namespace ringfence::axiomatic

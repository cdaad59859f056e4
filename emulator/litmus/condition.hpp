// Conditions evaluated on final states.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/litmus/ast.hpp"

namespace ringfence::litmus {

// The values of observed_variables(test), in its order, at the end of an execution.
using State = std::vector<std::int64_t>;

// What an execution must report: the variables of condition, filter and `locations`, sorted,
// registers of P0, P1, … after the locations, each once.
std::vector<Variable> observed_variables(const Test& test);

// variables are observed_variables(test); formula is the test's filter or condition.
bool holds(const Formula& formula, const std::vector<Variable>& variables, const State& state);

}  // namespace ringfence::litmus

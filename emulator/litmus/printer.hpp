// A litmus test as text, in the syntax that parser.hpp reads: parse(print(t)) equals t.
#pragma once

#include <string>

#include "emulator/litmus/ast.hpp"

namespace ringfence::litmus {

std::string print(const Test& test);

// The parts, for messages and traces.
std::string print(const Test& test, const Thread& thread, const Instruction& instruction);
std::string print(const Test& test, const Variable& variable);
std::string print(const Test& test, const Formula& formula);

}  // namespace ringfence::litmus

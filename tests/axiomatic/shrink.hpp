// Makes a failing litmus test smaller while it still fails.
#pragma once

#include <functional>

#include "emulator/litmus/ast.hpp"

namespace ringfence::axiomatic {

// Whether a test still shows what is looked for. Only well-formed tests are asked about: what
// print() gives for them, parse() reads.
using Predicate = std::function<bool(const litmus::Test&)>;

// test satisfies still_fails; so does the result, and no single step makes it smaller: leaving out
// a thread, an instruction (with what then is dead: labels, locations, registers), an order, scope,
// operand or placement for a simpler one. An exception of the predicate passes through.
litmus::Test shrink(const litmus::Test& test, const Predicate& still_fails);

}  // namespace ringfence::axiomatic

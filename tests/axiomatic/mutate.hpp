// Random variants of a given litmus test: its shape with other orders, scopes, fences and places.
// Random programs rarely hit the classic shapes; variants of a corpus do nothing else.
#pragma once

#include <cstdint>

#include "emulator/litmus/ast.hpp"

namespace ringfence::axiomatic {

// The variant of a seed: accesses, operands and branches are kept; the order and scope of every
// access, atomic and fence are drawn anew, fences come and go, threads are placed anew (threads of
// one cta with a barrier stay together). All registers and locations are observed and the
// condition is true, as with generate(). Every variant is well formed.
litmus::Test mutate(const litmus::Test& test, std::uint64_t seed);

}  // namespace ringfence::axiomatic

#pragma once
// Generated litmus tests that wait at counters: cells to which several threads add alike.

#include <cstdint>

#include "emulator/litmus/ast.hpp"

namespace ringfence::testing {

// The test of a seed. Threads add 1 to `c` and `d`, wait until so many of the additions came, and
// pass values on in `x` and `y`; now and then something else touches a counter. What the waits read
// nobody asks for, all other registers and all locations are observed.
litmus::Test counted(std::uint64_t seed);
// The same with two threads or three, most of whose additions are to both counters at once, by
// multimem.red.release.
litmus::Test counted_by_multimem(std::uint64_t seed);

}  // namespace ringfence::testing

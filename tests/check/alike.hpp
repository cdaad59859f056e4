#pragma once
// Generated litmus tests of waits that several writes end alike (first_end.cpp).

#include <cstdint>

#include "emulator/litmus/ast.hpp"

namespace ringfence::testing {

// Most of the threads store each to a location of the thread's own, at scope sys, as flags are:
// there the first write stands for the others.
litmus::Test with_alike_ends(std::uint64_t seed);

// Threads that store to several locations of their own each and wait for those of others, as the
// lanes of a warp do.
litmus::Test with_several_flags(std::uint64_t seed);

// Of these two kinds and of waits by atomics, a third each.
litmus::Test with_waits(std::uint64_t seed);

}  // namespace ringfence::testing

// Random kernels that count and wait.
#pragma once

#include <cstdint>

#include "tests/oracle/kernel.hpp"

namespace ringfence::oracle {

// The kernel of a seed: 2 to 4 warps of a block; additions of one, waits (`>=`, `!=`, for a value,
// by atomics that change nothing), strong accesses and at most two weak ones, at one or two words
// of global memory. It was made along one order in which it comes to its end.
Kernel generate_waits(std::uint64_t seed);

}  // namespace ringfence::oracle

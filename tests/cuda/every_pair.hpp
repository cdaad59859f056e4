// The packed arithmetic of the kernels (element.cuh) against fp32 rounded to the element type, on
// the GPU.
#pragma once

#include <cstdint>

#include "cuda/kernels/limits.hpp"

namespace ringfence::tests {

enum class PairOperation { add, multiply };

/// Of all 2^32 pairs of operands, how many give other bits, NaNs included.
uint64_t pairs_that_differ(cuda::DataType dtype, PairOperation operation);

}  // namespace ringfence::tests

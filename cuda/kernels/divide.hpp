// Division by the hidden size, rounded to nearest, without the division subroutine: its call takes
// registers that the loads in flight want. Host and device, so that a test can compare it with the
// operator over many values on the CPU.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define RINGFENCE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define RINGFENCE_HOST_DEVICE inline
#endif

namespace ringfence::cuda {

/// value / divisor, correctly rounded for 2^-100 <= value <= FLT_MAX, 0, infinity and NaN, given
/// reciprocal = the correctly rounded 1 / divisor and 1 <= divisor <= 2^14 whole. (Markstein: one
/// correction from a quotient within one unit in the last place, with a correctly rounded
/// reciprocal, rounds correctly; the first correction brings the quotient there.)
RINGFENCE_HOST_DEVICE float divide_by_whole(float value, float divisor, float reciprocal) {
  float quotient = value * reciprocal;
  quotient = fmaf(fmaf(-quotient, divisor, value), reciprocal, quotient);
  quotient = fmaf(fmaf(-quotient, divisor, value), reciprocal, quotient);
  // With an infinite value the correction is infinity - infinity.
  return value <= 3.402823466e38f ? quotient : value;
}

}  // namespace ringfence::cuda

// Divisions rounded to nearest without the division subroutine: its call takes registers that the
// loads in flight want, and keeps one division from overlapping the next. Host and device, so that
// a test can compare them with the operator over many values on the CPU.
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

/// Where divide_by_normal may be used: every |value| of a row is `least` or more, and the divisor
/// is its root mean square, so that none exceeds 2^7 times the divisor.
RINGFENCE_HOST_DEVICE bool divides_normally(float least, float divisor) {
  return least >= 0x1p-100f && divisor >= 0x1p-60f && divisor <= 0x1p20f;
}

/// value / divisor, correctly rounded where divides_normally, given reciprocal = the correctly
/// rounded 1 / divisor: as divide_by_whole. The quotient is then at least 2^-120 and the remainders
/// are multiples of 2^-148, so neither loses bits.
RINGFENCE_HOST_DEVICE float divide_by_normal(float value, float divisor, float reciprocal) {
  float quotient = value * reciprocal;
  quotient = fmaf(fmaf(-quotient, divisor, value), reciprocal, quotient);
  return fmaf(fmaf(-quotient, divisor, value), reciprocal, quotient);
}

}  // namespace ringfence::cuda

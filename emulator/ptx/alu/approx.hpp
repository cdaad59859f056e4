#pragma once

namespace ringfence::ptx {

// The approximate functions of PTX, with subnormals kept (without .ftz). Which of them are
// bit-exact with hardware, and over which inputs, stands at each.

/// As an H200 computes it, over every input: a table of its differences to the correctly rounded
/// value over [1, 4), which repeats with every factor 4; subnormals are scaled by 2^24 before and
/// 2^12 after, as the compiled code does.
float rsqrt_approx(float x);
/// As an H200 computes it for x in [1, 4); the same differences are used at every other factor 4,
/// which is an inference.
float sqrt_approx(float x);
/// As an H200 computes it for x in [1, 2); the same differences are used at every other power of 2,
/// which is an inference.
float rcp_approx(float x);
/// As an H200 computes it for x in [1, 2); correctly rounded elsewhere.
float ex2_approx(float x);

/// Correctly rounded (but for double rounding of a 53-bit intermediate): no table of the hardware.
float lg2_approx(float x);
float sin_approx(float x);
float cos_approx(float x);
float tanh_approx(float x);

}  // namespace ringfence::ptx

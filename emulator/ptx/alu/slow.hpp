#pragma once

#include <cstdint>

#include "emulator/ptx/types.hpp"

namespace ringfence::ptx {

/// Floating-point forms that are computed lane by lane: other roundings than nearest, saturation,
/// conversions to integers, and the approximate functions.
enum class SlowOperation : std::uint8_t {
  add,
  sub,
  mul,
  fma,
  div,
  rcp,
  sqrt,
  rsqrt_approx,
  rcp_approx,
  sqrt_approx,
  ex2_approx,
  lg2_approx,
  sin_approx,
  cos_approx,
  tanh_approx,
  div_approx,
  round_integral,
  saturate,
};

/// Bits of `flags` (they stand in Op::immediate): 0..7 the operation, 8..10 Rounding, 11 .ftz,
/// 12 .sat.
constexpr std::uint64_t kSlowRoundingShift = 8;
constexpr std::uint64_t kSlowFlush = 1ULL << 11;
constexpr std::uint64_t kSlowSaturate = 1ULL << 12;

/// Operands and result are the bits of f32 values.
std::uint32_t slow_float(SlowOperation operation, std::uint64_t flags, std::uint32_t a,
                         std::uint32_t b, std::uint32_t c);
/// The same on f64; the approximate operations other than rcp and rsqrt do not exist there.
std::uint64_t slow_double(SlowOperation operation, std::uint64_t flags, std::uint64_t a,
                          std::uint64_t b, std::uint64_t c);

/// Conversions with directed rounding or to integers. `from` and `to` name the types; values travel
/// as bits in the low end. Float to integer saturates; NaN gives 0, or the highest bit alone where
/// one of the types is of 64 bits.
std::uint64_t slow_convert(Type to, Type from, std::uint64_t flags, std::uint64_t value);

}  // namespace ringfence::ptx

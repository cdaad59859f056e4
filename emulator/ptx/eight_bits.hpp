#pragma once

// Elements of 8 bits, and the sums of their products.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "emulator/ptx/types.hpp"

namespace ringfence::ptx {

/// One byte of an e4m3 or e5m2 (OCP 8-bit floating point): e4m3 has no infinity.
inline float from_fp8(bool e5m2, std::uint32_t byte) {
  const int mantissa = e5m2 ? 2 : 3;
  const int bias = e5m2 ? 15 : 7;
  const auto exponent = static_cast<int>((byte & 0x7FU) >> mantissa);
  const std::uint32_t fraction = byte & ((1U << mantissa) - 1U);
  const int top = e5m2 ? 31 : 15;
  float out = std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction | 1U << mantissa),
                         (exponent == 0 ? 1 : exponent) - bias - mantissa);
  if (exponent == top && e5m2) {
    out = fraction == 0 ? std::numeric_limits<float>::infinity()
                        : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == top && fraction == 7) {
    out = std::numeric_limits<float>::quiet_NaN();
  }
  return (byte & 0x80U) != 0 ? -out : out;
}

/// The value of one byte as an element of `type`: s8, u8, e4m3 or e5m2.
inline float from_byte(Type type, std::uint32_t byte) {
  if (type == Type::s8) return static_cast<std::int8_t>(byte);
  if (type == Type::u8) return static_cast<std::uint8_t>(byte);
  return from_fp8(type == Type::e5m2, byte);
}

/// A sum of integers as an s32: .satfinite clamps it, else the high bits are lost.
inline std::uint32_t to_s32(std::int64_t sum, bool saturate) {
  using Limits = std::numeric_limits<std::int32_t>;
  if (saturate) sum = std::clamp<std::int64_t>(sum, Limits::min(), Limits::max());
  return static_cast<std::uint32_t>(sum);
}

}  // namespace ringfence::ptx

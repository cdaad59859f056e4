#pragma once

// Scalar arithmetic of PTX, written so that a loop of 32 calls vectorises: no calls, few branches.
// This header is compiled once for each instruction set; everything in it is force-inlined so that
// no copy compiled for a wide instruction set can be picked by the linker for the baseline.

#include <cstdint>

#define RF_INLINE [[gnu::always_inline]] static inline

namespace ringfence::ptx {

RF_INLINE std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
RF_INLINE std::uint64_t bits_of(double x) { return __builtin_bit_cast(std::uint64_t, x); }
RF_INLINE float as_float(std::uint32_t x) { return __builtin_bit_cast(float, x); }
RF_INLINE double as_double(std::uint64_t x) { return __builtin_bit_cast(double, x); }

/// Every f32 result that is NaN is 0x7FFFFFFF on current hardware; x86 would keep a payload.
RF_INLINE float canonical(float x) { return x == x ? x : as_float(0x7FFFFFFFU); }

RF_INLINE float flushed(float x) {
  const std::uint32_t bits = bits_of(x);
  return (bits & 0x7F800000U) == 0 ? as_float(bits & 0x80000000U) : x;
}

RF_INLINE float from_bf16(std::uint32_t x) { return as_float(x << 16); }

/// Nearest even, subnormals kept, NaN to 0x7FFF.
RF_INLINE std::uint32_t to_bf16(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  return x == x ? rounded : 0x7FFFU;
}

RF_INLINE float from_f16(std::uint32_t x) {
  const std::uint32_t sign = (x & 0x8000U) << 16;
  const std::uint32_t magnitude = x & 0x7FFFU;
  // Normal numbers: rebias by multiplication with 2^112, exact also for subnormals.
  const float scaled = as_float(magnitude << 13) * as_float(0x77800000U);
  const std::uint32_t special = 0x7F800000U | (magnitude << 13);
  const std::uint32_t bits = magnitude >= 0x7C00U ? special : bits_of(scaled);
  return as_float(sign | bits);
}

/// Nearest even, subnormals kept, overflow to infinity, NaN to 0x7FFF.
RF_INLINE std::uint32_t to_f16(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  // Normal result: round in integer. Subnormal: adding 0.5 aligns the last place of f16 with that
  // of the float sum, and the addition rounds to nearest even.
  const std::uint32_t normal = (magnitude + 0xC8000FFFU + ((magnitude >> 13) & 1U)) >> 13;
  const float shifted = as_float(magnitude) + 0.5F;
  const std::uint32_t subnormal = bits_of(shifted) - 0x3F000000U;
  std::uint32_t out = magnitude < 0x38800000U ? subnormal : (normal & 0x7FFFU);
  out = magnitude >= 0x477FF000U ? 0x7C00U : out;
  return x == x ? (sign | out) : 0x7FFFU;
}

/// The float next to d such that a later rounding to fewer bits is as if done on d itself: inexact
/// results get an odd last bit.
RF_INLINE float round_to_odd(double d) {
  const float f = static_cast<float>(d);
  const std::uint32_t bits = bits_of(f);
  const double back = static_cast<double>(f);
  const bool fix = back != d && (bits & 1U) == 0 && d == d;
  const double magnitude = d < 0 ? -d : d;
  const double rounded = back < 0 ? -back : back;
  return as_float(fix ? (rounded < magnitude ? bits + 1 : bits - 1) : bits);
}

/// p + c in double, rounded to odd where inexact.
RF_INLINE double add_to_odd(double p, double c) {
  const double s = p + c;
  const double bb = s - p;
  const double error = (p - (s - bb)) + (c - bb);
  const std::uint64_t bits = bits_of(s);
  const bool fix = error != 0 && error == error && (bits & 1U) == 0;
  const bool away = (error > 0) == (s > 0);
  return as_double(fix ? (away ? bits + 1 : bits - 1) : bits);
}

/// a * b + c for operands of at most 11 significant bits, ready for one rounding to 16 bits.
RF_INLINE float fma_small(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  return round_to_odd(add_to_odd(product, static_cast<double>(c)));
}

/// NaN loses to a number, +0 is above -0, two NaN give the canonical one.
RF_INLINE float minimum(float a, float b) {
  const float zero = as_float(bits_of(a) | bits_of(b));
  float out = a < b ? a : b;
  out = a == b ? zero : out;
  out = a != a ? b : out;
  out = (b != b) ? a : out;
  return canonical(out);
}
RF_INLINE float maximum(float a, float b) {
  const float zero = as_float(bits_of(a) & bits_of(b));
  float out = a > b ? a : b;
  out = a == b ? zero : out;
  out = a != a ? b : out;
  out = (b != b) ? a : out;
  return canonical(out);
}
RF_INLINE double minimum(double a, double b) {
  const double zero = as_double(bits_of(a) | bits_of(b));
  double out = a < b ? a : b;
  out = a == b ? zero : out;
  out = a != a ? b : out;
  return b != b ? a : out;
}
RF_INLINE double maximum(double a, double b) {
  const double zero = as_double(bits_of(a) & bits_of(b));
  double out = a > b ? a : b;
  out = a == b ? zero : out;
  out = a != a ? b : out;
  return b != b ? a : out;
}

/// Nearest even of the magnitude to a float with `mantissa` stored bits and exponent bias `bias`,
/// clamped to `largest` (satfinite); NaN to `nan`. For the 8-bit formats.
RF_INLINE std::uint32_t to_fp8(float x, int mantissa, int bias, std::uint32_t largest,
                               std::uint32_t nan) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t sign = (bits >> 24) & 0x80U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const int lowest = 1 - bias;
  const int unit = (exponent < lowest ? lowest : exponent) - mantissa;  // weight of the last place
  // magnitude / 2^unit rounded to an integer, ties to even; at most 2^(mantissa+1).
  const int shift = 23 - (exponent - unit);
  const std::uint32_t fraction = (magnitude & 0x7FFFFFU) | 0x800000U;
  std::uint32_t whole = 0;
  if (magnitude >= 0x00800000U && shift <= 25) {
    whole = fraction >> (shift > 24 ? 25 : shift);
    const std::uint32_t rest = fraction & ((1U << shift) - 1U);
    const std::uint32_t half = 1U << (shift - 1);
    whole += (rest > half || (rest == half && (whole & 1U) != 0)) ? 1U : 0U;
  }
  // The exponent field adds itself: a carry out of the mantissa lands in it.
  const int base = (exponent < lowest ? 0 : exponent - lowest);
  std::uint32_t out = whole + (static_cast<std::uint32_t>(base) << mantissa);
  out = (out > largest || exponent > 16) ? largest : out;
  return x == x ? (sign | out) : nan;
}

}  // namespace ringfence::ptx

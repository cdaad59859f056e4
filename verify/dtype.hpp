// Element types and their conversions, those of 16 bits as patterns in std::uint16_t, fp32 in
// std::uint32_t.
//
// Storage everywhere in ringfence is the bit pattern; arithmetic is done in float and rounded back
// where the operator rounds. For +, - and * of two bf16 or two fp16 values that equals the
// operation in the type itself: 24 >= 2p + 2 for p = 8 and p = 11, so the second rounding is
// harmless.
//
// The scalar forms are inline, need nothing but <cstring>, and compile in device code's host part;
// they give the same bits as Eigen::bfloat16 and Eigen::half, NaN included (tests/verify compares
// them over all patterns). The bulk forms are Eigen's own conversions.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

namespace ringfence::verify {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Dtype : std::uint8_t {
  bf16,
  f16,
  f32,
  f64,
  e4m3,  // 8 bits: no infinity, NaN is 0x7f; a conversion saturates, as PTX's .satfinite
  e5m2,  // 8 bits: as IEEE; a conversion saturates too
  s8,
  s16,
  s32,
  s64,
  u8,
  u16,
  u32,
  u64
};

constexpr std::size_t dtype_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::e4m3:
    case Dtype::e5m2:
    case Dtype::s8:
    case Dtype::u8:
      return 1;
    case Dtype::bf16:
    case Dtype::f16:
    case Dtype::s16:
    case Dtype::u16:
      return 2;
    case Dtype::f32:
    case Dtype::s32:
    case Dtype::u32:
      return 4;
    case Dtype::f64:
    case Dtype::s64:
    case Dtype::u64:
      break;
  }
  return 8;
}

constexpr bool is_integer(Dtype dtype) { return dtype >= Dtype::s8; }
constexpr bool is_signed_integer(Dtype dtype) { return dtype >= Dtype::s8 && dtype <= Dtype::s64; }
// Two bytes, and of the bulk conversions below.
constexpr bool is_half(Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::f16; }
// What the operator's tensors may be.
constexpr bool is_operator_dtype(Dtype dtype) { return is_half(dtype) || dtype == Dtype::f32; }

// What a floating-point type can represent.
struct FloatFormat {
  int significand_bits;  // with the leading one
  int minimum_exponent;  // of the smallest normal number
  double largest;        // finite
};
constexpr FloatFormat float_format(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return {8, -126, 0x1.fep127};
    case Dtype::f16:
      return {11, -14, 65504.0};
    case Dtype::e4m3:
      return {4, -6, 448.0};
    case Dtype::e5m2:
      return {3, -14, 57344.0};
    case Dtype::f64:
      return {53, -1022, 0x1.fffffffffffffp1023};
    default:
      return {24, -126, 0x1.fffffep127};
  }
}

// 2^exponent, within the range of normal doubles.
constexpr double power_of_two(int exponent) {
  double value = 1;
  for (; exponent > 0; --exponent) value *= 2;
  for (; exponent < 0; ++exponent) value /= 2;
  return value;
}

// Bits of the significand with the leading one: 8, 11, 24, ...
constexpr int significand_bits(Dtype dtype) { return float_format(dtype).significand_bits; }

// Exponent of the smallest normal number: -126, -14, -126, ...
constexpr int minimum_exponent(Dtype dtype) { return float_format(dtype).minimum_exponent; }

// u, the largest relative error of one rounding to nearest: 2^-8, 2^-11, 2^-24, ...
constexpr double unit_roundoff(Dtype dtype) {
  return dtype == Dtype::bf16  ? 0x1p-8
         : dtype == Dtype::f16 ? 0x1p-11
         : dtype == Dtype::f32 ? 0x1p-24
                               : power_of_two(-significand_bits(dtype));
}

// The largest absolute error of one rounding to nearest of a subnormal number: half the smallest
// subnormal, 2^-134, 2^-25, 2^-150, ...; of f64 0, which nobody sees.
constexpr double subnormal_floor(Dtype dtype) {
  return dtype == Dtype::bf16  ? 0x1p-134
         : dtype == Dtype::f16 ? 0x1p-25
         : dtype == Dtype::f32 ? 0x1p-150
         : dtype == Dtype::f64 ? 0
                               : power_of_two(minimum_exponent(dtype) - significand_bits(dtype));
}

constexpr double largest_finite(Dtype dtype) { return float_format(dtype).largest; }

// Magnitudes at or above this round to infinity: the largest finite plus half its ulp. The 8-bit
// types and f64 have none: the first saturate, and of the other a double is never that large.
constexpr double overflow_threshold(Dtype dtype) {
  return dtype == Dtype::bf16  ? 0x1.ffp127
         : dtype == Dtype::f16 ? 65520.0
         : dtype == Dtype::f32 ? 0x1.ffffffp127
                               : __builtin_huge_val();
}

// "bf16", "fp16", "fp32", "fp64", "e4m3", "e5m2", "s8" to "u64": what the tables print.
const char* dtype_name(Dtype dtype);
// Takes those, and "f16", "f32" and "f64". Throws InputError for anything else.
Dtype parse_dtype(const std::string& name);

// What a safetensors header calls it: "BF16", "F8_E4M3", "I32"; and back. All of them, for errors.
const char* safetensors_name(Dtype dtype);
std::optional<Dtype> safetensors_dtype(const std::string& name);
std::string safetensors_dtype_names();

// --- one element of any dtype -------------------------------------------------------------------

// The pattern at `from`, which need not be aligned; and back.
std::uint64_t load_pattern(Dtype dtype, const std::byte* from);
void store_pattern(Dtype dtype, std::uint64_t pattern, std::byte* to);
// Its value. A 64-bit integer beyond 2^53 is rounded.
double decode(Dtype dtype, std::uint64_t pattern);
// The pattern nearest to a value, ties to even. Integers and 8-bit types saturate; NaN is 0 for
// integers.
std::uint64_t encode(Dtype dtype, double value);

// --- scalar conversions -------------------------------------------------------------------------

inline std::uint32_t float_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_from_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float bf16_to_float(std::uint16_t bits) {
  return float_from_bits(static_cast<std::uint32_t>(bits) << 16);
}

// To nearest, ties to even; NaN becomes 0x7FC0 with the sign kept.
inline std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | 0x7fc0u);
  // Adding just under half of the last kept place, plus one where that place is odd, carries
  // exactly when rounding up is due. An overflow carries into the infinity pattern.
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Towards zero; NaN as in float_to_bf16.
inline std::uint16_t float_to_bf16_truncated(float value) {
  const std::uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return float_to_bf16(value);
  return static_cast<std::uint16_t>(bits >> 16);
}

inline float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 31u;
  const std::uint32_t fraction = bits & 1023u;
  if (exponent == 31) return float_from_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // exact
  return float_from_bits(sign | float_bits(magnitude));
}

namespace detail {
// The bits of a float without its sign, to those of an fp16 number: to nearest even, or towards
// zero.
inline std::uint16_t f16_magnitude(std::uint32_t magnitude, bool truncate) {
  if (magnitude > 0x7f800000u) return 0x7e00u;
  if (magnitude == 0x7f800000u) return 0x7c00u;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  if (exponent < -25) return 0;  // below half the smallest subnormal; float's subnormals too
  // A normal result drops 13 places, a subnormal one more for each power of two below 2^-14.
  const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  const int dropped = exponent >= -14 ? 13 : -1 - exponent;
  std::uint32_t kept = significand >> dropped;
  const std::uint32_t rest = significand & ((1u << dropped) - 1u);
  const std::uint32_t half = 1u << (dropped - 1);
  if (!truncate && (rest > half || (rest == half && (kept & 1u) != 0))) ++kept;
  // `kept` holds the leading one of a normal number, which adds one to the exponent field.
  const std::uint32_t field = exponent >= -14 ? static_cast<std::uint32_t>(exponent + 14) << 10 : 0;
  const std::uint32_t bits = field + kept;
  if (bits >= 0x7c00u) return truncate ? 0x7bffu : 0x7c00u;
  return static_cast<std::uint16_t>(bits);
}
}  // namespace detail

// To nearest, ties to even; NaN becomes 0x7E00 with the sign kept.
inline std::uint16_t float_to_f16(float value) {
  const std::uint32_t bits = float_bits(value);
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) |
                                    detail::f16_magnitude(bits & 0x7fffffffu, false));
}

// Towards zero (a finite value never becomes infinite); NaN as in float_to_f16.
inline std::uint16_t float_to_f16_truncated(float value) {
  const std::uint32_t bits = float_bits(value);
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) |
                                    detail::f16_magnitude(bits & 0x7fffffffu, true));
}

// The same by dtype; dtype is bf16 or f16.
inline float to_float(Dtype dtype, std::uint16_t bits) {
  return dtype == Dtype::f16 ? f16_to_float(bits) : bf16_to_float(bits);
}

inline std::uint16_t round_to(Dtype dtype, float value) {
  return dtype == Dtype::f16 ? float_to_f16(value) : float_to_bf16(value);
}

inline std::uint16_t truncate_to(Dtype dtype, float value) {
  return dtype == Dtype::f16 ? float_to_f16_truncated(value) : float_to_bf16_truncated(value);
}

// fp32, whose patterns have 32 bits: nothing is rounded.
template <std::same_as<std::uint32_t> Bits>
float to_float(Dtype, Bits bits) {
  return float_from_bits(bits);
}

// By the pattern's type: std::uint16_t of bf16 and f16, std::uint32_t of f32.
template <typename Bits>
Bits rounded_to(Dtype dtype, float value) {
  if constexpr (sizeof(Bits) == 4) {
    return float_bits(value);
  } else {
    return round_to(dtype, value);
  }
}
template <typename Bits>
Bits truncated_to(Dtype dtype, float value) {
  if constexpr (sizeof(Bits) == 4) {
    return float_bits(value);
  } else {
    return truncate_to(dtype, value);
  }
}

// One rounding of a double to the dtype (not by way of a rounded float).
std::uint16_t round_double_to(Dtype dtype, double value);

// --- bulk conversions, dtype bf16 or f16; the ranges must not overlap ----------------------------

void to_float(Dtype dtype, const std::uint16_t* from, float* to, std::size_t count);
void to_double(Dtype dtype, const std::uint16_t* from, double* to, std::size_t count);
void round_to(Dtype dtype, const float* from, std::uint16_t* to, std::size_t count);

// The same by dtype, f32 too; aligned as its patterns are.
void to_float(Dtype dtype, const std::byte* from, float* to, std::size_t count);
void to_double(Dtype dtype, const std::byte* from, double* to, std::size_t count);
void round_to(Dtype dtype, const float* from, std::byte* to, std::size_t count);

// Calls f(d) with the dtype as a constant, std::integral_constant<Dtype, ...>: for loops over
// elements, which then have no choice in them. Bits as in rounded_to().
template <typename Bits, typename F>
decltype(auto) with_constant(Dtype dtype, F&& f) {
  if constexpr (sizeof(Bits) == 4) {
    return f(std::integral_constant<Dtype, Dtype::f32>{});
  } else {
    if (dtype == Dtype::f16) return f(std::integral_constant<Dtype, Dtype::f16>{});
    return f(std::integral_constant<Dtype, Dtype::bf16>{});
  }
}

// Calls f(Bits{}) with the type of the dtype's patterns, which has to be bf16, f16 or f32.
template <typename F>
decltype(auto) with_patterns(Dtype dtype, F&& f) {
  if (dtype == Dtype::f32) return f(std::uint32_t{});
  return f(std::uint16_t{});
}

}  // namespace ringfence::verify

#pragma once

// An independent scalar reference of PTX arithmetic: formats are searched, bits are counted one by
// one, floating point goes through double. Nothing here is shared with the executor.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ringfence::ptx::test {

inline float f32(std::uint64_t x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x)); }
inline double f64(std::uint64_t x) { return std::bit_cast<double>(x); }
inline std::uint64_t bits(float x) {
  return std::isnan(x) ? 0x7FFFFFFFULL : std::bit_cast<std::uint32_t>(x);
}
inline std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

/// A binary format of sign, exponent and mantissa bits, read from its definition.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  ///< e4m3 has none: all ones is its only NaN
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t nan() const { return (1U << (exponent_bits + mantissa_bits)) - 1; }

  double decode(std::uint32_t x) const {
    const std::uint32_t mantissa = x & ((1U << mantissa_bits) - 1);
    const int exponent = static_cast<int>(x >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const bool negative = (x >> (mantissa_bits + exponent_bits) & 1) != 0;
    double magnitude;
    if (has_infinity && exponent == (1 << exponent_bits) - 1) {
      magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                                : std::numeric_limits<double>::quiet_NaN();
    } else if (!has_infinity && (x & nan()) == nan()) {
      magnitude = std::numeric_limits<double>::quiet_NaN();
    } else if (exponent == 0) {
      magnitude = std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    } else {
      magnitude = std::ldexp(mantissa + (1U << mantissa_bits), exponent - bias() - mantissa_bits);
    }
    return negative ? -magnitude : magnitude;
  }

  /// Nearest, ties to even, found by bisection over the codes; `clamp` keeps it finite.
  std::uint32_t encode(double x, bool clamp = false) const {
    const std::uint32_t sign = std::signbit(x) ? 1U << (exponent_bits + mantissa_bits) : 0;
    if (std::isnan(x)) return nan();
    const double magnitude = std::fabs(x);
    std::uint32_t largest =
        has_infinity ? (((1U << exponent_bits) - 1) << mantissa_bits) - 1 : nan() - 1;
    std::uint32_t low = 0;
    std::uint32_t high = largest;
    while (low < high) {  // the largest code whose value is at most the magnitude
      const std::uint32_t middle = low + (high - low + 1) / 2;
      if (decode(middle) <= magnitude)
        low = middle;
      else
        high = middle - 1;
    }
    if (low == largest) {
      if (clamp) return sign | largest;
      const double step = decode(largest) - decode(largest - 1);
      return sign | (magnitude >= decode(largest) + step / 2 ? largest + 1 : largest);
    }
    const double below = magnitude - decode(low);
    const double above = decode(low + 1) - magnitude;
    const bool up = above < below || (above == below && low % 2 == 1);
    return sign | (up ? low + 1 : low);
  }
};
constexpr Format kBf16{8, 7, true};
constexpr Format kF16{5, 10, true};
constexpr Format kE4m3{4, 3, false};
constexpr Format kE5m2{5, 2, true};

/// The sum or product of two doubles that came from 16-bit formats is exact in double or at least
/// has a sticky last bit for the fused case; long double carries 64 bits, enough for a 22-bit
/// product and an addend within 40 binades. Used with values of that range.
inline std::uint32_t half_fma(const Format& f, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const long double exact = static_cast<long double>(f.decode(a)) * f.decode(b) + f.decode(c);
  // To double with the sticky bit kept: then one rounding.
  double d = static_cast<double>(exact);
  if (std::isfinite(d) && static_cast<long double>(d) != exact && (bits(d) & 1) == 0) {
    d = std::nextafter(d, exact > d ? INFINITY : -INFINITY);
  }
  return f.encode(d);
}

inline std::uint64_t low(std::uint64_t x, int n) { return n >= 64 ? x : x & ((1ULL << n) - 1); }
inline std::int64_t sign(std::uint64_t x, int n) {
  x = low(x, n);
  if (n < 64 && (x >> (n - 1) & 1) != 0) x |= ~0ULL << n;
  return static_cast<std::int64_t>(x);
}

inline double min_of(double a, double b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
inline double max_of(double a, double b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

inline std::uint64_t extract(std::uint64_t a, std::uint64_t pos, std::uint64_t len, int n,
                             bool is_signed) {
  pos &= 255;
  len &= 255;
  const std::uint64_t msb = static_cast<std::uint64_t>(n) - 1;
  const std::uint64_t last = pos + len - 1 < msb ? pos + len - 1 : msb;
  const std::uint64_t fill = !is_signed || len == 0 ? 0 : a >> last & 1;
  std::uint64_t d = 0;
  for (std::uint64_t i = 0; i <= msb; ++i) {
    const std::uint64_t bit = i < len && pos + i <= msb ? a >> (pos + i) & 1 : fill;
    d |= bit << i;
  }
  return d;
}
inline std::uint64_t insert(std::uint64_t a, std::uint64_t b, std::uint64_t pos, std::uint64_t len,
                            int n) {
  pos &= 255;
  len &= 255;
  std::uint64_t f = low(b, n);
  for (std::uint64_t i = 0; i < len && pos + i < static_cast<std::uint64_t>(n); ++i) {
    f = (f & ~(1ULL << (pos + i))) | (a >> i & 1) << (pos + i);
  }
  return f;
}

}  // namespace ringfence::ptx::test

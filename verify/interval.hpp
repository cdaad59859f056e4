// Arithmetic of one element's interval; for verify's sources. The formulas: verify/values.hpp.
#pragma once

#include <algorithm>
#include <cmath>

#include "verify/values.hpp"

namespace ringfence::verify::interval {

struct Interval {
  double value;  // what plain order gives; it lies within
  double low;
  double high;
};

inline Interval anything(double value) { return {value, -HUGE_VAL, HUGE_VAL}; }
// Not a number, whatever the rounding.
inline Interval none() { return {std::nan(""), std::nan(""), std::nan("")}; }

inline bool is_nan(const Interval& x) { return std::isnan(x.low) || std::isnan(x.high); }
inline bool is_point(const Interval& x) { return x.low == x.high; }

inline Interval at(const Values& v, std::size_t i) { return {v.value[i], v.low[i], v.high[i]}; }
inline void put(Values& v, std::size_t i, const Interval& x) {
  v.low[i] = x.low;
  v.high[i] = x.high;
  // Plain order of ours is one of those that the interval allows for.
  v.value[i] = is_nan(x) || std::isnan(x.value) ? x.value : std::clamp(x.value, x.low, x.high);
}

// Of numbers, uninitialised; and integers as numbers.
Values like(const Values& a, std::int64_t rows, std::int64_t columns);
Values numbers(const Values& a);

inline double rounded(double x, Dtype dtype) {
  return dtype == Dtype::f64 ? x : decode(dtype, encode(dtype, x));
}

// The place value of the last bit that is set, for a finite x that is not 0.
inline double last_place(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  const auto whole = static_cast<std::int64_t>(std::ldexp(fraction, 53));
  return std::ldexp(1.0, exponent - 53 + __builtin_ctzll(static_cast<unsigned long long>(whole)));
}

// Whether numbers that are multiples of `quantum`, up to this magnitude in sum, are added without
// an error in any order: every partial sum has a significand that fits.
inline bool exact_by(double quantum, double magnitude, double u) {
  return std::isinf(quantum) || magnitude * u <= quantum;
}

// One rounding of relative error u, or none. A single value that needs no rounding stays.
inline Interval widened(Interval x, double u, double floor) {
  if (is_nan(x) || (is_point(x) && (x.low == 0 || std::isinf(x.low)))) return x;
  const bool fp32 = u == 0x1p-24;
  if (is_point(x) && fp32 && static_cast<double>(static_cast<float>(x.low)) == x.low) return x;
  x.low -= u * std::abs(x.low) + floor;
  x.high += u * std::abs(x.high) + floor;
  return x;
}

// Rounded to `target` to nearest or towards zero.
inline Interval truncated(Interval x, Dtype target) {
  if (is_nan(x) || (is_point(x) && rounded(x.low, target) == x.low)) return x;
  const double u = 2 * unit_roundoff(target);
  const double floor = 2 * subnormal_floor(target);
  // Away from zero nothing is added.
  if (x.low > 0) x.low = std::max(0.0, x.low - u * x.low - floor);
  if (x.high < 0) x.high = std::min(0.0, x.high - u * x.high + floor);
  return x;
}

// The exact product, with the error of doubles.
inline Interval multiply(const Interval& a, const Interval& b) {
  const double p[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
  double low = p[0], high = p[0];
  for (const double x : p) {
    if (std::isnan(x)) {
      const bool certain = is_nan(a) || is_nan(b) || (is_point(a) && is_point(b));
      return certain ? Interval{x, x, x} : anything(a.value * b.value);
    }
    low = std::min(low, x);
    high = std::max(high, x);
  }
  return {a.value * b.value, low, high};
}

inline Interval extreme(const Interval& a, const Interval& b, bool largest) {
  if (is_nan(a)) return a;
  if (is_nan(b)) return b;
  if (largest) {
    return {std::max(a.value, b.value), std::max(a.low, b.low), std::max(a.high, b.high)};
  }
  return {std::min(a.value, b.value), std::min(a.low, b.low), std::min(a.high, b.high)};
}

// Whose root is not a number. (Nearer to 0 a kernel may flush to -0 first, whose root is one.)
inline constexpr double kNegative = -0x1p-126;

inline Interval function(Unary what, const Interval& x, Dtype dtype) {
  const bool wide = dtype == Dtype::f64;
  const double approximate = wide ? 0x1p-51 : 0x1p-22;
  switch (what) {
    case Unary::negate:
      return {-x.value, -x.high, -x.low};
    case Unary::absolute:
      if (x.low >= 0) return x;
      if (x.high <= 0) return {-x.value, -x.high, -x.low};
      return {std::abs(x.value), 0, std::max(-x.low, x.high)};
    case Unary::exponential: {
      const double reach = std::max(std::abs(x.low), std::abs(x.high));
      return widened({rounded(std::exp(x.value), dtype), std::exp(x.low), std::exp(x.high)},
                     wide ? 0x1p-50 : 0x1p-21 + reach * 0x1p-23, wide ? 0 : 0x1p-126);
    }
    case Unary::root:
      if (x.high <= kNegative) return none();
      if (!(x.low >= 0)) return anything(std::sqrt(x.value));
      return widened({rounded(std::sqrt(x.value), dtype), std::sqrt(x.low), std::sqrt(x.high)},
                     approximate, 0);
    case Unary::reciprocal_root:
      break;
  }
  const double value = rounded(1 / std::sqrt(x.value), dtype);
  if (x.high <= kNegative) return none();
  if (!(x.low >= 0)) return anything(value);
  return widened({value, 1 / std::sqrt(x.high), 1 / std::sqrt(x.low)}, approximate, 0);
}

}  // namespace ringfence::verify::interval

#include "verify/compare.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/error.hpp"

namespace ringfence::verify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The distance between representable numbers at a value's magnitude.
double ulp_of(Dtype dtype, double value) {
  const int exponent =
      value == 0 ? minimum_exponent(dtype) : std::max(std::ilogb(value), minimum_exponent(dtype));
  return std::ldexp(1.0, exponent - (significand_bits(dtype) - 1));
}

// Patterns in numerical order, so that their difference counts representable numbers.
std::int64_t ordinal(std::uint32_t bits, Dtype dtype) {
  const std::uint32_t sign = dtype == Dtype::f32 ? 0x80000000u : 0x8000u;
  const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

struct Element {
  double value;
  std::uint32_t bits;
};

struct PatternSource {
  Dtype dtype;
  const std::uint16_t* bits;
  Element operator[](std::size_t i) const { return {to_float(dtype, bits[i]), bits[i]}; }
};

struct TensorSource {
  const Tensor& tensor;
  Element operator[](std::size_t i) const { return {tensor.value(i), tensor.pattern(i)}; }
};

std::uint32_t rounded_bits(Dtype dtype, double value) {
  if (dtype == Dtype::f32) return float_bits(static_cast<float>(value));
  return round_double_to(dtype, value);
}

Comparison begin(std::string name, Dtype dtype, const Shape& shape, std::size_t count) {
  if (count == 0)
    throw InputError(fmt::format("{}: nothing to compare: give at least one element", name));
  Comparison c;
  c.name = std::move(name);
  c.dtype = dtype;
  c.shape = shape;
  c.elements = count;
  return c;
}

void note(Comparison& c, const Mismatch& mismatch) {
  ++c.mismatches;
  c.heat.add(c.shape, mismatch.index);
  if (std::isnan(mismatch.actual) != std::isnan(mismatch.expected)) {
    ++c.nan_mismatches;
  } else if (std::isinf(mismatch.actual) || std::isinf(mismatch.expected)) {
    ++c.infinity_mismatches;
  }
  if (!c.has_mismatch || mismatch.index < c.first.index) c.first = mismatch;
  c.has_mismatch = true;
}

// Whether one element is right. NaN matches NaN. An infinity is right where that infinity is
// expected, or where the bound reaches the magnitude at which the dtype overflows.
bool matches(Dtype dtype, double actual, double expected, double bound) {
  if (std::isnan(expected) || std::isnan(actual)) {
    return std::isnan(actual) && (std::isnan(expected) || bound == kInfinity);
  }
  if (bound == kInfinity) return true;
  if (std::isinf(actual)) {
    return std::signbit(actual) == std::signbit(expected) &&
           (std::isinf(expected) || std::abs(expected) + bound >= overflow_threshold(dtype));
  }
  return std::isfinite(expected) && std::abs(actual - expected) <= bound;
}

template <typename Source>
void compare_elements(Comparison& c, const Source& actual, const double* expected,
                      const double* bound, std::size_t count, std::size_t first_index) {
  for (std::size_t i = 0; i < count; ++i) {
    const Element element = actual[i];
    const bool match = matches(c.dtype, element.value, expected[i], bound[i]);
    if (std::isfinite(element.value) && std::isfinite(expected[i])) {
      const double error = std::abs(element.value - expected[i]);
      if (error == 0) {
        c.histogram.add(0);
      } else {
        const double ratio = bound[i] > 0 ? error / bound[i] : kInfinity;
        c.histogram.add(ratio);
        c.max_error_over_bound = std::max(c.max_error_over_bound, ratio);
        const double larger = std::max(std::abs(element.value), std::abs(expected[i]));
        c.max_ulp = std::max(c.max_ulp, error / ulp_of(c.dtype, larger));
      }
    } else if (match) {
      c.histogram.add(0);
    } else {
      c.histogram.add_class_mismatch();
    }
    if (!match) {
      note(c, {first_index + i, expected[i], element.value, bound[i],
               rounded_bits(c.dtype, expected[i]), element.bits});
    }
  }
}

template <typename Source>
void compare_patterns(Comparison& c, const Source& actual, const Source& expected,
                      std::size_t count, std::size_t first_index) {
  c.bit_exact = true;
  for (std::size_t i = 0; i < count; ++i) {
    const Element a = actual[i];
    const Element e = expected[i];
    if (a.bits == e.bits) {
      c.histogram.add(0);
      continue;
    }
    c.histogram.add(kInfinity);
    c.max_error_over_bound = kInfinity;
    if (std::isfinite(a.value) && std::isfinite(e.value)) {
      const auto distance = std::abs(ordinal(a.bits, c.dtype) - ordinal(e.bits, c.dtype));
      c.max_ulp = std::max(c.max_ulp, static_cast<double>(distance));
    }
    note(c, {first_index + i, e.value, a.value, 0, e.bits, a.bits});
  }
}

std::string coordinates(const Shape& shape, std::size_t index) {
  std::string text;
  std::size_t rest = index;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const auto extent = static_cast<std::size_t>(shape[d]);
    if (extent == 0) return fmt::format("[{}]", index);
    text = fmt::format("{}{}{}", d == 0 ? rest : rest % extent, text.empty() ? "" : ", ", text);
    rest /= extent;
  }
  return fmt::format("[{}]", text);
}

}  // namespace

void Comparison::merge(const Comparison& other) {
  bit_exact = bit_exact || other.bit_exact;
  elements += other.elements;
  mismatches += other.mismatches;
  nan_mismatches += other.nan_mismatches;
  infinity_mismatches += other.infinity_mismatches;
  max_error_over_bound = std::max(max_error_over_bound, other.max_error_over_bound);
  max_ulp = std::max(max_ulp, other.max_ulp);
  histogram.merge(other.histogram);
  heat.merge(other.heat);
  if (other.has_mismatch && (!has_mismatch || other.first.index < first.index)) first = other.first;
  has_mismatch = has_mismatch || other.has_mismatch;
}

Comparison compare(std::string name, Dtype dtype, const Shape& shape, const std::uint16_t* actual,
                   const double* expected, const double* bound, std::size_t count,
                   std::size_t first_index) {
  Comparison c = begin(std::move(name), dtype, shape, count);
  compare_elements(c, PatternSource{dtype, actual}, expected, bound, count, first_index);
  return c;
}

Comparison compare(std::string name, const Tensor& actual, const std::vector<double>& expected,
                   const std::vector<double>& bound) {
  if (actual.elements() != expected.size() || expected.size() != bound.size()) {
    throw InputError(
        fmt::format("{}: {} elements against {} expected ones and {} bounds: use equal numbers",
                    name, actual.elements(), expected.size(), bound.size()));
  }
  Comparison c = begin(std::move(name), actual.dtype, actual.shape, expected.size());
  compare_elements(c, TensorSource{actual}, expected.data(), bound.data(), expected.size(), 0);
  return c;
}

Comparison compare_bits(std::string name, Dtype dtype, const Shape& shape,
                        const std::uint16_t* actual, const std::uint16_t* expected,
                        std::size_t count, std::size_t first_index) {
  Comparison c = begin(std::move(name), dtype, shape, count);
  compare_patterns(c, PatternSource{dtype, actual}, PatternSource{dtype, expected}, count,
                   first_index);
  return c;
}

Comparison compare_bits(std::string name, const Tensor& actual, const Tensor& expected) {
  if (actual.dtype != expected.dtype || actual.shape != expected.shape) {
    throw InputError(fmt::format("{}: {} {} against {} {}: use equal dtypes and shapes", name,
                                 dtype_name(actual.dtype), shape_text(actual.shape),
                                 dtype_name(expected.dtype), shape_text(expected.shape)));
  }
  Comparison c = begin(std::move(name), actual.dtype, actual.shape, actual.elements());
  compare_patterns(c, TensorSource{actual}, TensorSource{expected}, actual.elements(), 0);
  return c;
}

std::string mismatch_text(const Comparison& c) {
  if (!c.has_mismatch) return "";
  const Mismatch& m = c.first;
  const int digits = c.dtype == Dtype::f32 ? 8 : 4;
  const int precision = c.dtype == Dtype::f32 ? 9 : 5;
  std::string text = fmt::format("first {}: got {:.{}g} (0x{:0{}x}), expected {:.{}g} (0x{:0{}x})",
                                 coordinates(c.shape, m.index), m.actual, precision, m.actual_bits,
                                 digits, m.expected, precision, m.expected_bits, digits);
  return c.bit_exact ? text + ", bit for bit" : text + fmt::format(", bound {:.3g}", m.bound);
}

}  // namespace ringfence::verify

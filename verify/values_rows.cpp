// Operations by rows: products, norms, softmax, largest magnitudes.
#include <fmt/core.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "verify/error.hpp"
#include "verify/interval.hpp"

namespace ringfence::verify {
namespace {

using interval::anything;
using interval::Interval;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<const Matrix>;

// (1 + u)^n - 1
double accumulated(double u, std::int64_t n) {
  return std::expm1(static_cast<double>(n) * std::log1p(u));
}

double roundoff_of(const Values& v) { return unit_roundoff(v.dtype); }

// The largest power of two that divides all of these.
double quantum_of(const std::vector<double>& values) {
  double quantum = HUGE_VAL;
  for (const double x : values) {
    if (x != 0 && std::isfinite(x)) quantum = std::min(quantum, interval::last_place(x));
  }
  return quantum;
}

Matrix matrix_of(const std::vector<double>& values, std::int64_t inner) {
  return Map(values.data(), static_cast<Eigen::Index>(values.size()) / inner, inner);
}

// Rounding by rounding: fp32 sums of a tile, added tile after tile.
double product_in_order(const Matrix& a, const Matrix& b, Eigen::Index row, Eigen::Index column,
                        std::int64_t tile, Dtype dtype) {
  if (dtype == Dtype::f64) return a.row(row).dot(b.row(column));
  float total = 0;
  for (Eigen::Index first = 0; first < a.cols(); first += tile) {
    float part = 0;
    for (Eigen::Index k = first; k < std::min<Eigen::Index>(a.cols(), first + tile); ++k) {
      part += static_cast<float>(a(row, k)) * static_cast<float>(b(column, k));
    }
    total += part;
  }
  return total;
}

Interval square(const Interval& x) {
  const Interval magnitude = interval::function(Unary::absolute, x, Dtype::f64);
  return {x.value * x.value, magnitude.low * magnitude.low, magnitude.high * magnitude.high};
}

// Σ x of `count` elements in any order, `extra` roundings beside those of the sum.
template <class Element>
Interval any_order(std::int64_t count, double u, int extra, Element element) {
  Interval sum{0, 0, 0};
  double magnitude = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Interval x = element(i);
    sum.value += x.value;
    sum.low += x.low;
    sum.high += x.high;
    magnitude += std::max(std::abs(x.low), std::abs(x.high));
  }
  const double error =
      (accumulated(u, count + extra) + static_cast<double>(count) * 0x1p-53) * magnitude;
  sum.low -= error;
  sum.high += error;
  return sum;
}

std::size_t index(const Values& v, std::int64_t row, std::int64_t column) {
  return static_cast<std::size_t>(row * v.columns + column);
}

// 1 / sqrt(mean + eps)
Interval scale_of(const Interval& mean, double eps, Dtype dtype) {
  const double u = unit_roundoff(dtype);
  Interval m{mean.value + eps, std::max(mean.low, 0.0) + eps, mean.high + eps};
  m = interval::widened(m, 2 * u, 0);
  return interval::function(Unary::reciprocal_root, m, dtype);
}

}  // namespace

Values matmul(const Values& a_given, const Values& b_given, std::int64_t inner, std::int64_t tile) {
  const Values a = interval::numbers(a_given);
  const Values b = interval::numbers(b_given);
  const auto wanted = static_cast<std::size_t>(inner);
  if (inner < 1 || a.size() % wanted != 0 || b.size() % wanted != 0) {
    throw InputError(
        fmt::format("matmul over {}: the factors have {} and {} elements; both are "
                    "rows of the inner size",
                    inner, a.size(), b.size()));
  }
  const Matrix x = matrix_of(a.value, inner), y = matrix_of(b.value, inner);
  const Matrix exact = x * y.transpose();
  // Each factor as its value and how far it may be off.
  const auto radius = [](const Values& v) {
    std::vector<double> r(v.size());
    for (std::size_t i = 0; i < r.size(); ++i) {
      r[i] = std::max(v.high[i] - v.value[i], v.value[i] - v.low[i]);
    }
    return r;
  };
  const Matrix dx = matrix_of(radius(a), inner), dy = matrix_of(radius(b), inner);
  const Matrix reach = (x.cwiseAbs() + dx) * (y.cwiseAbs() + dy).transpose();
  Matrix carried = Matrix::Zero(exact.rows(), exact.cols());
  if (!dx.isZero(0) || !dy.isZero(0)) carried = reach - x.cwiseAbs() * y.cwiseAbs().transpose();
  Values out = interval::like(a.dtype == Dtype::f64 ? a : b, exact.rows(), exact.cols());
  const double u = roundoff_of(out);
  const std::int64_t step = tile > 0 ? std::min(tile, inner) : inner;
  // The longest chain of additions, and the rounding of each product.
  const std::int64_t depth = step + (inner + step - 1) / step - 1;
  const double factor = accumulated(u, depth) + static_cast<double>(inner) * 0x1p-53;
  const double quantum = quantum_of(a.value) * quantum_of(b.value);
  for (Eigen::Index i = 0; i < exact.rows(); ++i) {
    for (Eigen::Index j = 0; j < exact.cols(); ++j) {
      const double error = carried(i, j) * (1 + 0x1p-50) + factor * reach(i, j);
      const bool no_error =
          carried(i, j) == 0 && interval::exact_by(quantum, reach(i, j), std::max(u, 0x1p-52));
      const double value = product_in_order(x, y, i, j, step, out.dtype);
      interval::put(out, index(out, i, j),
                    no_error ? Interval{exact(i, j), exact(i, j), exact(i, j)}
                             : Interval{value, exact(i, j) - error, exact(i, j) + error});
    }
  }
  return out;
}

Values row_sum(const Values& given) {
  const Values a = interval::numbers(given);
  Values out = interval::like(a, a.rows, 1);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    interval::put(out, static_cast<std::size_t>(r),
                  any_order(a.columns, roundoff_of(a), 0,
                            [&](std::int64_t c) { return interval::at(a, index(a, r, c)); }));
  }
  return out;
}

Values reciprocal_rms(const Values& given, double eps) {
  const Values a = interval::numbers(given);
  Values out = interval::like(a, a.rows, 1);
  const auto h = static_cast<double>(a.columns);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    Interval s = any_order(a.columns, roundoff_of(a), 4,
                           [&](std::int64_t c) { return square(interval::at(a, index(a, r, c))); });
    // Squares that fall below fp32's subnormals are lost whole; those that overflow it may.
    const bool wide = a.dtype == Dtype::f64;
    s.low -= wide ? 0 : h * 0x1p-149;
    if (s.high >= overflow_threshold(a.dtype)) {
      interval::put(out, static_cast<std::size_t>(r), anything(0));
      continue;
    }
    interval::put(out, static_cast<std::size_t>(r),
                  scale_of({s.value / h, s.low / h, s.high / h}, eps, out.dtype));
  }
  return out;
}

Values normalise(const Values& given, double eps) {
  const Values a = interval::numbers(given);
  Values out = interval::like(a, a.rows, a.columns);
  const double u = roundoff_of(a);
  const auto h = static_cast<double>(a.columns);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const auto x = [&](std::int64_t c) { return interval::at(a, index(a, r, c)); };
    const Interval sum = any_order(a.columns, u, 2, x);
    const Interval mean{sum.value / h, sum.low / h, sum.high / h};
    const auto distance = [&](std::int64_t c) {
      return Interval{x(c).value - mean.value, x(c).low - mean.high, x(c).high - mean.low};
    };
    Interval squares =
        any_order(a.columns, u, 6, [&](std::int64_t c) { return square(distance(c)); });
    // E[x²] - mean² errs by what either of the two does.
    double raw = 0;
    for (std::int64_t c = 0; c < a.columns; ++c) raw += square(x(c)).high;
    const double by_difference = 2 * accumulated(u, a.columns + 6) * raw;
    squares.low -= by_difference;
    squares.high += by_difference;
    const Interval s =
        scale_of({squares.value / h, squares.low / h, squares.high / h}, eps, out.dtype);
    for (std::int64_t c = 0; c < a.columns; ++c) {
      const Interval d = interval::widened(distance(c), u, 0);
      const Interval y = interval::multiply(d, s);
      interval::put(out, index(out, r, c), interval::widened(y, u, subnormal_floor(out.dtype)));
    }
  }
  return out;
}

Values softmax(const Values& given) {
  const Values a = interval::numbers(given);
  Values out = interval::like(a, a.rows, a.columns);
  const double u = roundoff_of(a);
  const bool wide = a.dtype == Dtype::f64;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const auto x = [&](std::int64_t c) { return interval::at(a, index(a, r, c)); };
    double top = -HUGE_VAL, value_sum = 0, low_sum = 0, high_sum = 0, reach = 0;
    for (std::int64_t c = 0; c < a.columns; ++c) top = std::max(top, x(c).high);
    for (std::int64_t c = 0; c < a.columns; ++c) {
      value_sum += std::exp(x(c).value - top);
      low_sum += std::exp(x(c).low - top);
      high_sum += std::exp(x(c).high - top);
      // Beyond this exp is 0 in fp32, which the floor below covers.
      reach = std::max(reach, std::min(top - x(c).low, 104.0));
    }
    const double one = wide ? 0x1p-50 + reach * 0x1p-52 : 0x1p-21 + reach * 0x1p-22;
    const double error = 2 * one + accumulated(u, a.columns + 2) + (wide ? 0x1p-51 : 0x1p-22);
    for (std::int64_t c = 0; c < a.columns; ++c) {
      const Interval e{std::exp(x(c).value - top), std::exp(x(c).low - top),
                       std::exp(x(c).high - top)};
      // It grows with its own exponential and falls with the others'.
      const Interval y{e.value / value_sum, e.low / (e.low + high_sum - e.high),
                       e.high / (e.high + std::max(0.0, low_sum - e.low))};
      interval::put(out, index(out, r, c), interval::widened(y, error, wide ? 0 : 0x1p-126));
    }
  }
  return out;
}

Values largest_magnitude(const Values& given, std::int64_t group) {
  Values a = apply(Unary::absolute, interval::numbers(given));
  if (group < 0) {
    a.columns = static_cast<std::int64_t>(a.size());
    a.rows = 1;
    group = a.columns;
  }
  if (group == 0) group = a.columns;
  if (group < 1 || a.columns % group != 0) {
    throw InputError(fmt::format("groups of {} do not divide {} columns", group, a.columns));
  }
  Values out = interval::like(a, a.rows, a.columns / group);
  for (std::size_t g = 0; g < out.size(); ++g) {
    Interval most{0, 0, 0};
    for (std::size_t i = 0; i < static_cast<std::size_t>(group); ++i) {
      most =
          interval::extreme(most, interval::at(a, g * static_cast<std::size_t>(group) + i), true);
    }
    interval::put(out, g, most);
  }
  return out;
}

}  // namespace ringfence::verify

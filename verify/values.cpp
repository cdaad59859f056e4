#include "verify/values.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "verify/error.hpp"
#include "verify/interval.hpp"

namespace ringfence::verify {

using interval::anything;
using interval::Interval;
using interval::is_point;

Values interval::like(const Values& a, std::int64_t rows, std::int64_t columns) {
  Values out;
  out.rows = rows;
  out.columns = columns;
  out.dtype = a.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  const auto count = static_cast<std::size_t>(rows * columns);
  out.value.resize(count);
  out.low.resize(count);
  out.high.resize(count);
  return out;
}

Values interval::numbers(const Values& a) {
  if (!a.integer) return a;
  Values out = like(a, a.rows, a.columns);
  for (std::size_t i = 0; i < a.bits.size(); ++i) {
    const double v = decode(a.dtype, a.bits[i]);
    // A 64-bit integer may have been rounded.
    const double lost = std::abs(v) < 0x1p53 ? 0 : std::abs(v) * 0x1p-53;
    put(out, i, {v, v - lost, v + lost});
  }
  return out;
}

Values values_of(Dtype dtype, const std::byte* bytes, std::size_t count, std::int64_t columns) {
  Values out;
  out.columns = static_cast<std::int64_t>(count);
  out.integer = is_integer(dtype);
  const std::size_t size = dtype_bytes(dtype);
  if (out.integer) {
    out.dtype = dtype;
    out.bits.resize(count);
    for (std::size_t i = 0; i < count; ++i) out.bits[i] = load_pattern(dtype, bytes + i * size);
  } else {
    out.dtype = dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    out.value.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      out.value[i] = decode(dtype, load_pattern(dtype, bytes + i * size));
    }
    out.low = out.high = out.value;
  }
  if (columns > 0) reshape(out, columns);
  return out;
}

Values constant(double value) {
  Values out;
  out.value = out.low = out.high = {value};
  return out;
}

void reshape(Values& v, std::int64_t columns) {
  const auto count = static_cast<std::int64_t>(v.size());
  v.columns = columns > 0 && count % columns == 0 ? columns : count;
  v.rows = v.columns == 0 ? 0 : count / v.columns;
}

// -- over tensors ---------------------------------------------------------------------------------

namespace {

std::uint64_t mask_of(Dtype dtype) { return ~std::uint64_t{0} >> (64 - 8 * dtype_bytes(dtype)); }

std::int64_t signed_value(Dtype dtype, std::uint64_t bits) {
  const unsigned unused = 64 - 8 * static_cast<unsigned>(dtype_bytes(dtype));
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

bool is_less(Dtype dtype, std::uint64_t a, std::uint64_t b) {
  return is_signed_integer(dtype) ? signed_value(dtype, a) < signed_value(dtype, b) : a < b;
}

std::uint64_t integer_of(Reduction what, Dtype dtype, std::uint64_t a, std::uint64_t b) {
  switch (what) {
    case Reduction::sum:
      return (a + b) & mask_of(dtype);
    case Reduction::product:
      return (a * b) & mask_of(dtype);
    case Reduction::max:
      return is_less(dtype, a, b) ? b : a;
    case Reduction::min:
      break;
  }
  return is_less(dtype, a, b) ? a : b;
}

// The sum of n terms in any order.
class Sum {
 public:
  explicit Sum(const Accumulation& how) : how_(how) {}

  void add(const Interval& x) {
    ++terms_;
    nominal_ = interval::rounded(nominal_ + x.value, how_.dtype);
    low_ += x.low;
    high_ += x.high;
    magnitude_ += std::max(std::abs(x.low), std::abs(x.high));
    points_ = points_ && x.low == x.high;
    if (x.value != 0 && std::isfinite(x.value))
      quantum_ = std::min(quantum_, interval::last_place(x.value));
  }

  Interval total() const {
    if (std::isnan(low_) || std::isnan(high_) || (points_ && std::isinf(low_))) {
      return {nominal_, low_, high_};
    }
    const double u = unit_roundoff(how_.dtype);
    if (points_ && low_ == high_ && interval::exact_by(quantum_, magnitude_, u)) {
      return {low_, low_, high_};
    }
    if (magnitude_ >= overflow_threshold(how_.dtype)) return {nominal_, -HUGE_VAL, HUGE_VAL};
    // The doubles above err as well, where f64 is added a little.
    const double own = static_cast<double>(terms_) * 0x1p-53 * magnitude_;
    const double error =
        terms_ <= 2 ? u * std::max(std::abs(low_), std::abs(high_))
                    : std::expm1(static_cast<double>(terms_ - 1) * std::log1p(u)) * magnitude_;
    return {nominal_, low_ - error - own, high_ + error + own};
  }

 private:
  Accumulation how_;
  int terms_ = 0;
  double nominal_ = 0, low_ = 0, high_ = 0, magnitude_ = 0;
  double quantum_ = HUGE_VAL;
  bool points_ = true;
};

Interval product_of(const Interval& a, const Interval& b, double u, Dtype dtype) {
  const Interval exact = interval::multiply(a, b);
  return interval::widened({interval::rounded(a.value * b.value, dtype), exact.low, exact.high}, u,
                           subnormal_floor(dtype));
}

Interval reduced(Reduction what, const std::vector<const Values*>& parts, const Accumulation& how,
                 std::size_t i) {
  if (what == Reduction::sum) {
    Sum sum(how);
    for (const Values* p : parts) sum.add(interval::at(*p, i));
    return sum.total();
  }
  Interval all = interval::at(*parts[0], i);
  for (std::size_t p = 1; p < parts.size(); ++p) {
    const Interval x = interval::at(*parts[p], i);
    if (what == Reduction::product) {
      all = product_of(all, x, unit_roundoff(how.dtype), how.dtype);
    } else {
      all = interval::extreme(all, x, what == Reduction::max);
    }
  }
  return all;
}

}  // namespace

Values reduce(Reduction what, const std::vector<const Values*>& parts, const Accumulation& how) {
  const Values& first = *parts.at(0);
  if (first.integer) {
    Values out = first;
    for (std::size_t p = 1; p < parts.size(); ++p) {
      for (std::size_t i = 0; i < out.bits.size(); ++i) {
        out.bits[i] = integer_of(what, out.dtype, out.bits[i], parts[p]->bits[i]);
      }
    }
    return out;
  }
  Values out = interval::like(first, first.rows, first.columns);
  for (std::size_t i = 0; i < out.size(); ++i) {
    Interval x = reduced(what, parts, how, i);
    if (what == Reduction::sum && how.truncated) x = interval::truncated(x, how.target);
    interval::put(out, i, x);
  }
  return out;
}

// -- element by element ---------------------------------------------------------------------------

namespace {

// What lies at [row, column] of the larger shape.
class Broadcast {
 public:
  Broadcast(const Values& v, std::int64_t rows, std::int64_t columns)
      : rows_(v.rows), columns_(v.columns), share_(v.columns == 0 ? 1 : columns / v.columns) {
    const bool fits = (v.rows == rows || v.rows == 1) && v.columns > 0 && columns % v.columns == 0;
    if (!fits) {
      throw InputError(
          fmt::format("[{}, {}] does not fit [{}, {}]: expected equal rows and columns, one of "
                      "them, or columns that divide the other's",
                      v.rows, v.columns, rows, columns));
    }
  }
  std::size_t operator()(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>((rows_ == 1 ? 0 : row) * columns_ + column / share_);
  }

 private:
  std::int64_t rows_, columns_, share_;
};

Interval combined(Binary what, const Interval& a, const Interval& b, Dtype dtype) {
  const double u = unit_roundoff(dtype);
  switch (what) {
    case Binary::add:
      return interval::widened(
          {interval::rounded(a.value + b.value, dtype), a.low + b.low, a.high + b.high}, u, 0);
    case Binary::subtract:
      return interval::widened(
          {interval::rounded(a.value - b.value, dtype), a.low - b.high, a.high - b.low}, u, 0);
    case Binary::multiply:
      return product_of(a, b, u, dtype);
    case Binary::divide: {
      const double value = interval::rounded(a.value / b.value, dtype);
      // By exactly 0: what IEEE 754 says, whatever the rounding.
      if (is_point(a) && is_point(b) && b.low == 0 && std::signbit(b.low) == std::signbit(b.high)) {
        const double exact = a.low / b.low;
        return {exact, exact, exact};
      }
      if (!(b.low > 0) && !(b.high < 0)) return anything(value);
      const Interval inverse{1 / b.value, 1 / b.high, 1 / b.low};
      const Interval exact = interval::multiply(a, inverse);
      return interval::widened({value, exact.low, exact.high},
                               dtype == Dtype::f64 ? 0x1p-51 : 0x1p-22, subnormal_floor(dtype));
    }
    case Binary::max:
    case Binary::min:
      break;
  }
  return interval::extreme(a, b, what == Binary::max);
}

}  // namespace

Values combine(Binary what, const Values& a, const Values& b) {
  const std::int64_t rows = std::max(a.rows, b.rows);
  const std::int64_t columns = std::max(a.columns, b.columns);
  const Broadcast of_a(a, rows, columns), of_b(b, rows, columns);
  if (a.integer && b.integer && a.dtype == b.dtype && what != Binary::divide) {
    Values out = a;
    out.rows = rows;
    out.columns = columns;
    out.bits.clear();
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::uint64_t x = a.bits[of_a(r, c)];
        const std::uint64_t y = b.bits[of_b(r, c)];
        const std::uint64_t z = what == Binary::add                               ? x + y
                                : what == Binary::subtract                        ? x - y
                                : what == Binary::multiply                        ? x * y
                                : (what == Binary::max) == is_less(a.dtype, x, y) ? y
                                                                                  : x;
        out.bits.push_back(z & mask_of(a.dtype));
      }
    }
    return out;
  }
  const Values x = interval::numbers(a);
  const Values y = interval::numbers(b);
  Values out = interval::like(x.dtype == Dtype::f64 ? x : y, rows, columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      interval::put(
          out, static_cast<std::size_t>(r * columns + c),
          combined(what, interval::at(x, of_a(r, c)), interval::at(y, of_b(r, c)), out.dtype));
    }
  }
  return out;
}

Values apply(Unary what, const Values& a) {
  if (a.integer && (what == Unary::negate || what == Unary::absolute)) {
    Values out = a;
    for (std::uint64_t& b : out.bits) {
      const bool negative = is_signed_integer(a.dtype) && signed_value(a.dtype, b) < 0;
      if (negative || what == Unary::negate) b = (0 - b) & mask_of(a.dtype);
    }
    return out;
  }
  const Values x = interval::numbers(a);
  Values out = interval::like(x, x.rows, x.columns);
  for (std::size_t i = 0; i < out.size(); ++i) {
    interval::put(out, i, interval::function(what, interval::at(x, i), out.dtype));
  }
  return out;
}

Values cast(const Values& a, Dtype dtype) {
  if (a.integer && is_integer(dtype)) {
    Values out = a;
    out.dtype = dtype;
    const std::uint64_t most = mask_of(dtype) >> (is_signed_integer(dtype) ? 1 : 0);
    for (std::uint64_t& b : out.bits) {
      if (is_signed_integer(a.dtype) && signed_value(a.dtype, b) < 0) {
        const auto least = -static_cast<std::int64_t>(most) - 1;
        b = is_signed_integer(dtype)
                ? static_cast<std::uint64_t>(std::max(signed_value(a.dtype, b), least)) &
                      mask_of(dtype)
                : 0;
      } else {
        b = std::min(b, most);
      }
    }
    return out;
  }
  Values out = interval::numbers(a);
  const auto round = [&](double& x) {
    if (std::isnan(x)) return;
    x = std::isinf(x) && !is_integer(dtype) && dtype_bytes(dtype) > 1
            ? x
            : decode(dtype, encode(dtype, x));
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    round(out.value[i]);
    round(out.low[i]);
    round(out.high[i]);
  }
  out.dtype = dtype == Dtype::f64 || (out.dtype == Dtype::f64 && is_integer(dtype)) ? Dtype::f64
                                                                                    : Dtype::f32;
  return out;
}

// -- expectations ---------------------------------------------------------------------------------

Expectation expectation(Values values, Dtype dtype) {
  Expectation e;
  e.dtype = dtype;
  if (values.integer && is_integer(dtype)) {  // modulo its width
    for (std::uint64_t& b : values.bits) {
      if (is_signed_integer(values.dtype)) {
        b = static_cast<std::uint64_t>(signed_value(values.dtype, b));
      }
      b &= mask_of(dtype);
    }
    values.dtype = dtype;
  }
  e.values = cast(values, dtype);
  e.shape = e.values.rows == 1 ? Shape{e.values.columns} : Shape{e.values.rows, e.values.columns};
  const std::size_t size = dtype_bytes(dtype);
  e.nominal.resize(e.elements() * size);
  for (std::size_t i = 0; i < e.elements(); ++i) {
    store_pattern(dtype, e.values.integer ? e.values.bits[i] : encode(dtype, e.values.value[i]),
                  e.nominal.data() + i * size);
  }
  return e;
}

double Expectation::bound(std::size_t i, double actual) const {
  const double expected = value(i);
  if (has_tolerance) return atol + rtol * std::abs(expected);
  if (values.integer) return 0;
  return actual < expected ? expected - values.low[i] : values.high[i] - expected;
}

bool Expectation::right(std::size_t i, std::uint64_t pattern) const {
  if (values.integer && (!has_tolerance || values.bits[i] == pattern)) {
    return values.bits[i] == pattern;
  }
  const double actual = decode(dtype, pattern);
  if (has_tolerance) {
    const double expected = value(i);
    if (std::isnan(expected) || std::isnan(actual)) {
      return std::isnan(expected) && std::isnan(actual);
    }
    return actual == expected ||
           (std::isfinite(expected) && std::abs(actual - expected) <= bound(i, actual));
  }
  if (actual >= values.low[i] && actual <= values.high[i]) return true;
  if (values.low[i] == -HUGE_VAL && values.high[i] == HUGE_VAL) return true;  // nothing is known
  return std::isnan(actual) && (std::isnan(values.low[i]) || std::isnan(values.high[i]));
}

std::size_t first_wrong(const Expectation& e, const std::byte* actual) {
  // Nearly always the value of plain order is there.
  const std::size_t size = dtype_bytes(e.dtype);
  const std::byte* const nominal = e.nominal.data();
  if (std::memcmp(actual, nominal, e.nominal.size()) == 0) return e.elements();
  std::size_t i = 0;
  while (i < e.elements() && (std::memcmp(actual + i * size, nominal + i * size, size) == 0 ||
                              e.right(i, load_pattern(e.dtype, actual + i * size)))) {
    ++i;
  }
  return i;
}

Comparison compare(std::string name, const Expectation& e, const std::byte* actual) {
  ElementComparison all(std::move(name), e.dtype, e.shape, e.elements());
  const std::size_t size = dtype_bytes(e.dtype);
  for (std::size_t i = 0; i < e.elements(); ++i) {
    const std::uint64_t pattern = load_pattern(e.dtype, actual + i * size);
    const double got = decode(e.dtype, pattern);
    const double expected = e.value(i);
    const std::uint64_t bits = load_pattern(e.dtype, e.nominal.data() + i * size);
    all.add({i, expected, got, e.bound(i, got), bits, pattern}, e.right(i, pattern));
  }
  return all.take();
}

Comparison compare(std::string name, const Tensor& actual, const Expectation& expected) {
  if (actual.dtype != expected.dtype || actual.elements() != expected.elements()) {
    throw InputError(fmt::format("{}: {} elements of {} against {} of {}: use equal ones", name,
                                 actual.elements(), dtype_name(actual.dtype), expected.elements(),
                                 dtype_name(expected.dtype)));
  }
  return compare(std::move(name), expected, actual.bytes.data());
}

}  // namespace ringfence::verify

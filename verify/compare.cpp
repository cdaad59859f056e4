#include "verify/compare.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "verify/error.hpp"

namespace ringfence::verify {
namespace {

// The distance between representable numbers at a value's magnitude.
double ulp_of(Dtype dtype, double value) {
  if (is_integer(dtype)) return 1;
  const int exponent =
      value == 0 ? minimum_exponent(dtype) : std::max(std::ilogb(value), minimum_exponent(dtype));
  return std::ldexp(1.0, exponent - (significand_bits(dtype) - 1));
}

// Patterns in numerical order, so that their difference counts representable numbers.
std::int64_t ordinal(std::uint64_t bits, Dtype dtype) {
  if (is_integer(dtype)) return static_cast<std::int64_t>(bits);
  const std::uint64_t sign = std::uint64_t{1} << (dtype_bytes(dtype) * 8 - 1);
  const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

struct Element {
  double value;
  std::uint64_t bits;
};

struct PatternSource {
  Dtype dtype;
  const std::uint16_t* bits;
  Element operator[](std::size_t i) const { return {to_float(dtype, bits[i]), bits[i]}; }
  bool same(const PatternSource& other, std::size_t from, std::size_t count) const {
    return std::memcmp(bits + from, other.bits + from, count * sizeof *bits) == 0;
  }
};

struct ByteSource {
  Dtype dtype;
  const std::byte* bytes;
  Element operator[](std::size_t i) const {
    const std::uint64_t bits = load_pattern(dtype, bytes + i * dtype_bytes(dtype));
    return {decode(dtype, bits), bits};
  }
  bool same(const ByteSource& other, std::size_t from, std::size_t count) const {
    const std::size_t size = dtype_bytes(dtype);
    return std::memcmp(bytes + from * size, other.bytes + from * size, count * size) == 0;
  }
};

ByteSource source_of(const Tensor& tensor) { return {tensor.dtype, tensor.bytes.data()}; }

const std::uint16_t* halves(const std::byte* bytes) {
  return reinterpret_cast<const std::uint16_t*>(bytes);
}

Comparison begin(std::string name, Dtype dtype, const Shape& shape, std::size_t count) {
  if (count == 0)
    throw InputError(fmt::format("{}: nothing to compare: give at least one element", name));
  Comparison c;
  c.name = std::move(name);
  c.dtype = dtype;
  c.shape = shape;
  c.elements = count;
  c.rows = RowFigures(shape);
  return c;
}

bool class_differs(const Mismatch& m) {
  return !std::isfinite(m.actual) || !std::isfinite(m.expected);
}

// Whether `a` is further off than `b`.
bool is_worse(const Mismatch& a, const Mismatch& b) {
  if (class_differs(a) || class_differs(b)) return class_differs(a) && !class_differs(b);
  return std::abs(a.actual - a.expected) > std::abs(b.actual - b.expected);
}

// The rows that an element is in. Elements come in order, so they seldom change.
class RowOf {
 public:
  Figures& of(RowFigures& rows, std::size_t index) {
    if (figures_ == nullptr || index < begin_ || index >= end_) {
      const std::size_t at = std::min<std::size_t>(index / rows.part, rows.parts.size() - 1);
      begin_ = at * rows.part;
      end_ = at + 1 == rows.parts.size() ? std::numeric_limits<std::size_t>::max()
                                         : begin_ + rows.part;
      figures_ = &rows.parts[at];
    }
    return *figures_;
  }
  // How many elements of those last asked for are left from `index` on.
  std::size_t left(std::size_t index) const { return end_ - index; }

 private:
  std::size_t begin_ = 0, end_ = 0;
  Figures* figures_ = nullptr;
};

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

template <class T>
void note_worst(T& c, const Mismatch& m) {
  if (!c.has_worst || is_worse(m, c.worst)) c.worst = m;
  c.has_worst = true;
}

// What Figures and Comparison add up alike.
template <class T, class U>
void add_figures(T& to, const U& other) {
  to.elements += other.elements;
  to.mismatches += other.mismatches;
  to.finite += other.finite;
  to.max_error_over_bound = std::max(to.max_error_over_bound, other.max_error_over_bound);
  to.max_absolute = std::max(to.max_absolute, other.max_absolute);
  to.max_relative = std::max(to.max_relative, other.max_relative);
  to.squared_error += other.squared_error;
  to.squared_actual += other.squared_actual;
  to.squared_expected += other.squared_expected;
  to.dot += other.dot;
  if (other.has_worst) note_worst(to, other.worst);
}

// What Figures and Comparison take from one element alike, right or not.
template <class T>
void measure(T& f, const Mismatch& m, bool right) {
  if (!std::isfinite(m.actual) || !std::isfinite(m.expected)) {
    if (!right) note_worst(f, m);
    return;
  }
  ++f.finite;
  f.dot += m.actual * m.expected;
  f.squared_actual += m.actual * m.actual;
  f.squared_expected += m.expected * m.expected;
  const double error = std::abs(m.actual - m.expected);
  if (error == 0) return;
  f.max_error_over_bound =
      std::max(f.max_error_over_bound, m.bound > 0 ? error / m.bound : kInfinity);
  f.max_absolute = std::max(f.max_absolute, error);
  const double size = std::abs(m.expected);
  if (size > m.bound) f.max_relative = std::max(f.max_relative, error / size);
  f.squared_error += error * error;
  note_worst(f, m);
}

void measure_part(Figures& f, const Mismatch& m, bool right) {
  ++f.elements;
  if (!right) ++f.mismatches;
  measure(f, m, right);
}

// What a comparison has beside those figures.
void spread(Comparison& c, const Closeness& close, const Mismatch& m, bool right) {
  if (!std::isfinite(m.actual) || !std::isfinite(m.expected)) {
    if (right) {
      c.histogram.add(0);
      return;
    }
    c.histogram.add_class_mismatch();
    c.close_rtol = c.close_atol = kInfinity;
    return;
  }
  const double error = std::abs(m.actual - m.expected);
  if (error == 0) {
    c.histogram.add(0);
    return;
  }
  const double size = std::abs(m.expected);
  c.histogram.add(m.bound > 0 ? error / m.bound : kInfinity);
  if (size > m.bound) {
    const double larger = std::max(std::abs(m.actual), size);
    c.max_ulp = std::max(c.max_ulp, error / ulp_of(c.dtype, larger));
  }
  const double beyond = error - close.atol;
  if (beyond > 0) c.close_rtol = std::max(c.close_rtol, size > 0 ? beyond / size : kInfinity);
  c.close_atol = std::max(c.close_atol, error - close.rtol * size);
}

// Takes the elements of a comparison that is made at once: by its rows, which are added up at the
// end.
class Measuring {
 public:
  explicit Measuring(Comparison& c) : c_(c), close_(default_closeness(c.dtype)) {}
  void add(const Mismatch& m, bool right) {
    measure_part(c_.rows.parts.empty() ? whole_ : row_.of(c_.rows, m.index), m, right);
    spread(c_, close_, m, right);
  }
  // Of the elements from `index` on, those of the same rows, and `most` at most.
  std::size_t together(std::size_t index, std::size_t most) {
    if (c_.rows.parts.empty()) return most;
    row_.of(c_.rows, index);
    return std::min(most, row_.left(index));
  }
  // `count` of them that are what they should be, bit for bit; value(i) is the i-th.
  template <class Value>
  void add_same(std::size_t index, std::size_t count, Value&& value) {
    Figures& f = c_.rows.parts.empty() ? whole_ : row_.of(c_.rows, index);
    std::array<double, 4> squared{};  // sums that do not wait for each other
    std::array<std::uint64_t, 4> finite{};
    for (std::size_t i = 0; i < count; ++i) {
      const double v = value(i);
      const bool counts = std::isfinite(v);
      squared[i % 4] += counts ? v * v : 0;
      finite[i % 4] += counts ? 1 : 0;
    }
    const double sum = squared[0] + squared[1] + squared[2] + squared[3];
    f.elements += count;
    f.finite += finite[0] + finite[1] + finite[2] + finite[3];
    f.dot += sum;
    f.squared_actual += sum;
    f.squared_expected += sum;
    c_.histogram.add(0, count);
  }
  void finish() {
    c_.elements = c_.mismatches = 0;
    add_figures(c_, whole_);
    for (const Figures& part : c_.rows.parts) add_figures(c_, part);
  }

 private:
  Comparison& c_;
  Closeness close_;
  RowOf row_;
  Figures whole_;
};

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
  Measuring measuring(c);
  for (std::size_t i = 0; i < count; ++i) {
    const Element element = actual[i];
    const bool match = matches(c.dtype, element.value, expected[i], bound[i]);
    const Mismatch m{first_index + i,
                     expected[i],
                     element.value,
                     bound[i],
                     match ? 0 : encode(c.dtype, expected[i]),
                     element.bits};
    measuring.add(m, match);
    if (!match) note(c, m);
  }
  measuring.finish();
  if (c.has_worst) c.worst.expected_bits = encode(c.dtype, c.worst.expected);
}

void compare_pattern(Comparison& c, Measuring& measuring, const Element& a, const Element& e,
                     std::size_t index) {
  const Mismatch m{index, e.value, a.value, 0, e.bits, a.bits};
  measuring.add(m, a.bits == e.bits);
  if (a.bits == e.bits) return;
  // Zeros of either sign and NaN of either payload differ here, if nowhere else.
  if (a.value == e.value) c.histogram.move_to_last();
  c.max_error_over_bound = kInfinity;
  if (std::isfinite(a.value) && std::isfinite(e.value)) {
    const auto distance = std::abs(ordinal(a.bits, c.dtype) - ordinal(e.bits, c.dtype));
    c.max_ulp = std::max(c.max_ulp, static_cast<double>(distance));
  }
  note(c, m);
}

template <typename Source>
void compare_patterns(Comparison& c, const Source& actual, const Source& expected,
                      std::size_t count, std::size_t first_index) {
  c.bit_exact = true;
  Measuring measuring(c);
  for (std::size_t i = 0; i < count;) {
    constexpr std::size_t kAtOnce = 1024;
    const std::size_t n = measuring.together(first_index + i, std::min(count - i, kAtOnce));
    if (actual.same(expected, i, n)) {
      measuring.add_same(first_index + i, n, [&](std::size_t k) { return actual[i + k].value; });
    } else {
      for (std::size_t k = i; k < i + n; ++k) {
        compare_pattern(c, measuring, actual[k], expected[k], first_index + k);
      }
    }
    i += n;
  }
  measuring.finish();
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

Closeness default_closeness(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return {1.6e-2, 1e-5};
    case Dtype::f16:
      return {1e-3, 1e-5};
    case Dtype::f32:
      return {1.3e-6, 1e-5};
    case Dtype::f64:
      return {1e-7, 1e-7};
    case Dtype::e4m3:
    case Dtype::e5m2:
      return {unit_roundoff(dtype) * 2, 1e-5};
    default:
      return {0, 0};
  }
}

namespace {

template <class T>
double rmse_of(const T& f) {
  return f.finite == 0 ? 0 : std::sqrt(f.squared_error / static_cast<double>(f.finite));
}

template <class T>
double cosine_of(const T& f) {
  if (f.squared_error == 0) return 1;  // rounding apart
  const double lengths = std::sqrt(f.squared_actual) * std::sqrt(f.squared_expected);
  if (lengths == 0) return f.squared_actual == f.squared_expected ? 1 : 0;
  return std::clamp(f.dot / lengths, -1.0, 1.0);
}

}  // namespace

double Figures::rmse() const { return rmse_of(*this); }
double Figures::cosine() const { return cosine_of(*this); }
double Comparison::rmse() const { return rmse_of(*this); }
double Comparison::cosine() const { return cosine_of(*this); }

void Figures::merge(const Figures& other) { add_figures(*this, other); }

RowFigures::RowFigures(const Shape& shape) {
  if (shape.empty()) return;  // no tensor yet, or one element
  std::uint64_t rows = 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) rows *= static_cast<std::uint64_t>(shape[d]);
  const auto columns = static_cast<std::uint64_t>(shape.back());
  if (rows == 0 || columns == 0) return;
  extent = (rows + kMost - 1) / kMost;
  part = extent * columns;
  parts.resize((rows + extent - 1) / extent);
}

void RowFigures::merge(const RowFigures& other) {
  if (parts.empty()) {
    *this = other;
    return;
  }
  if (part != other.part || parts.size() != other.parts.size()) return;  // of another shape
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].merge(other.parts[i]);
}

void Comparison::add_rank(int rank) {
  Figures all;
  for (Figures& f : rows.parts) {
    f.worst.rank = rank;
    all.merge(f);
  }
  ranks = {{rank, all}};
}

void Comparison::set_rank(int rank) {
  first.rank = worst.rank = rank;
  add_rank(rank);
}

ElementComparison::ElementComparison(std::string name, Dtype dtype, Shape shape, std::size_t count)
    : c_(begin(std::move(name), dtype, shape, count)) {}

void ElementComparison::add(const Mismatch& element, bool right) {
  measure(c_, element, right);
  spread(c_, default_closeness(c_.dtype), element, right);
  if (!c_.rows.parts.empty()) {
    measure_part(RowOf().of(c_.rows, element.index), element, right);
  }
  if (!right) note(c_, element);
}

void Comparison::merge(const Comparison& other) {
  add_figures(*this, other);
  bit_exact = bit_exact || other.bit_exact;
  nan_mismatches += other.nan_mismatches;
  infinity_mismatches += other.infinity_mismatches;
  max_ulp = std::max(max_ulp, other.max_ulp);
  close_rtol = std::max(close_rtol, other.close_rtol);
  close_atol = std::max(close_atol, other.close_atol);
  histogram.merge(other.histogram);
  heat.merge(other.heat);
  rows.merge(other.rows);
  for (const RankFigures& r : other.ranks) {
    const auto mine = std::find_if(ranks.begin(), ranks.end(),
                                   [&](const RankFigures& m) { return m.rank == r.rank; });
    if (mine == ranks.end()) {
      ranks.push_back(r);
    } else {
      mine->figures.merge(r.figures);
    }
  }
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

Comparison compare(std::string name, Dtype dtype, const Shape& shape, const std::byte* actual,
                   const double* expected, const double* bound, std::size_t count,
                   std::size_t first_index) {
  if (is_half(dtype)) {
    return compare(std::move(name), dtype, shape, halves(actual), expected, bound, count,
                   first_index);
  }
  Comparison c = begin(std::move(name), dtype, shape, count);
  compare_elements(c, ByteSource{dtype, actual}, expected, bound, count, first_index);
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
  compare_elements(c, source_of(actual), expected.data(), bound.data(), expected.size(), 0);
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

Comparison compare_bits(std::string name, Dtype dtype, const Shape& shape, const std::byte* actual,
                        const std::byte* expected, std::size_t count, std::size_t first_index) {
  if (is_half(dtype)) {
    return compare_bits(std::move(name), dtype, shape, halves(actual), halves(expected), count,
                        first_index);
  }
  Comparison c = begin(std::move(name), dtype, shape, count);
  compare_patterns(c, ByteSource{dtype, actual}, ByteSource{dtype, expected}, count, first_index);
  return c;
}

Comparison compare_bits(std::string name, const Tensor& actual, const Tensor& expected) {
  if (actual.dtype != expected.dtype || actual.shape != expected.shape) {
    throw InputError(fmt::format("{}: {} {} against {} {}: use equal dtypes and shapes", name,
                                 dtype_name(actual.dtype), shape_text(actual.shape),
                                 dtype_name(expected.dtype), shape_text(expected.shape)));
  }
  Comparison c = begin(std::move(name), actual.dtype, actual.shape, actual.elements());
  compare_patterns(c, source_of(actual), source_of(expected), actual.elements(), 0);
  return c;
}

std::string place_text(const Comparison& c, const Mismatch& m) {
  const std::string place = coordinates(c.shape, m.index);
  return m.rank < 0 ? place : fmt::format("{} of rank {}", place, m.rank);
}

std::string value_text(Dtype dtype, double value) {
  if (is_integer(dtype)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}g}", value, dtype == Dtype::f64 ? 17 : dtype == Dtype::f32 ? 9 : 5);
}

std::string mismatch_text(const Comparison& c) {
  if (!c.has_mismatch) return "";
  const Mismatch& m = c.first;
  const std::size_t digits = dtype_bytes(c.dtype) * 2;
  std::string text = fmt::format("first {}: got {} (0x{:0{}x}), expected {} (0x{:0{}x})",
                                 place_text(c, m), value_text(c.dtype, m.actual), m.actual_bits,
                                 digits, value_text(c.dtype, m.expected), m.expected_bits, digits);
  return c.bit_exact ? text + ", bit for bit" : text + fmt::format(", bound {:.3g}", m.bound);
}

}  // namespace ringfence::verify

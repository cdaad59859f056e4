// What a tensor should hold, element by element: the values that are right.
//
// A result that is rounded in an order that nobody fixes has no one right value. An element is
// therefore an interval [low, high], which holds every result that the arithmetic may give, and the
// one that plain order gives. Intervals are carried through each operation of the reference:
//
//   operation              the interval is widened by                          where it is not
//   sum of n terms         ((1+u)^(n-1) - 1)·Σ|x|: any order, u of the         all partial sums are
//                          accumulator; two terms: u·|sum|                     exact
//   + - *                  u32·|result|: it may be rounded to fp32, or kept    the result is an
//   fp32
//                          (a fused multiply-add)                              number
//   /, 1/sqrt, sqrt        2^-22·|result|: the approximate forms of PTX
//   exp                    (2^-21 + |x|·2^-23)·|result|
//   rounding to a dtype    not at all: low and high are rounded, so that most elements become one
//                          value
//
// with u32 = 2^-24; where f64 is computed with, 2^-53 in its place. Integers are exact, modulo
// 2^bits. No interval reads the result under test.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "verify/compare.hpp"
#include "verify/dtype.hpp"
#include "verify/tensor.hpp"

namespace ringfence::verify {

// Rows × columns of intervals, or of integers.
struct Values {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  Dtype dtype = Dtype::f32;  // of integers: their type. Else f64 where that is computed with
  bool integer = false;
  std::vector<double> value, low, high;  // of numbers
  std::vector<std::uint64_t> bits;       // of integers: patterns of `dtype`

  std::size_t size() const { return static_cast<std::size_t>(rows * columns); }
};

// Exactly these. `columns` of 0: one row.
Values values_of(Dtype dtype, const std::byte* bytes, std::size_t count, std::int64_t columns = 0);
Values constant(double value);

// The same elements in rows of `columns`; one row if that does not divide them.
void reshape(Values& values, std::int64_t columns);

// How numbers are added: in the accumulator's dtype, rounded at each step.
struct Accumulation {
  Dtype dtype = Dtype::f32;
  bool truncated = false;  // the sum may be truncated to `target` instead of rounded
  Dtype target = Dtype::bf16;
};

enum class Reduction : std::uint8_t { sum, product, max, min };
// Element by element over several tensors of one shape. NaN in, NaN out.
Values reduce(Reduction what, const std::vector<const Values*>& parts, const Accumulation& how);

enum class Binary : std::uint8_t { add, subtract, multiply, divide, max, min };
// Rows or columns of one are repeated over those of the other; a column may also stand for an equal
// share of the other's columns (the scale of a group). Throws InputError where shapes do not fit.
Values combine(Binary what, const Values& a, const Values& b);

enum class Unary : std::uint8_t { negate, absolute, exponential, root, reciprocal_root };
Values apply(Unary what, const Values& a);

// One rounding to nearest even; to integers and to the 8-bit types it saturates.
Values cast(const Values& a, Dtype dtype);

// a · bᵀ over rows of `inner` elements of both: [M, inner] and [N, inner] to [M, N]. With tile > 0
// the sum over `inner` is made tile by tile in order, and in any order within a tile.
Values matmul(const Values& a, const Values& b, std::int64_t inner, std::int64_t tile);

// 1 / sqrt(mean(x²) + eps) of each row: [rows, 1].
Values reciprocal_rms(const Values& a, double eps);
// (x - mean(x)) / sqrt(variance(x) + eps) by rows, whatever formula the variance is computed by.
Values normalise(const Values& a, double eps);
Values softmax(const Values& a);
// The largest |x| of each `group` columns: [rows, columns / group]; of all elements with group < 0.
Values largest_magnitude(const Values& a, std::int64_t group);
Values row_sum(const Values& a);

// What is judged: values as a tensor holds them.
struct Expectation {
  Dtype dtype = Dtype::f32;
  Shape shape;
  Values values;                   // rounded to `dtype`, or integers of it
  std::vector<std::byte> nominal;  // the tensor with the value of plain order in each place
  bool has_tolerance = false;
  double rtol = 0, atol = 0;

  std::size_t elements() const { return values.size(); }
  // What is expected of element i, as plain order gives it.
  double value(std::size_t i) const {
    return values.integer ? decode(dtype, values.bits[i]) : values.value[i];
  }
  // How far element i may be from its expected value on the side where `actual` is.
  double bound(std::size_t i, double actual) const;
  bool right(std::size_t i, std::uint64_t pattern) const;
};

// `values` rounded to `dtype`, of a shape that says rows where there are several.
Expectation expectation(Values values, Dtype dtype);

// Index of the first element that is wrong, or elements() if none is.
std::size_t first_wrong(const Expectation& expected, const std::byte* actual);
Comparison compare(std::string name, const Expectation& expected, const std::byte* actual);
// The same of a whole tensor. Throws InputError where dtypes or numbers of elements disagree.
Comparison compare(std::string name, const Tensor& actual, const Expectation& expected);

}  // namespace ringfence::verify

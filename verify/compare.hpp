// Comparison of a tensor with what it should be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "verify/dtype.hpp"
#include "verify/spread.hpp"
#include "verify/tensor.hpp"

namespace ringfence::verify {

struct Mismatch {
  std::size_t index = 0;  // flat, in the whole tensor
  double expected = 0;
  double actual = 0;
  double bound = 0;                 // 0 in a bit-exact comparison
  std::uint64_t expected_bits = 0;  // the expected value rounded to the dtype
  std::uint64_t actual_bits = 0;
  int rank = -1;  // whose element it is, where a comparison is over ranks
};

// The defaults of torch.testing.assert_close and of numpy-like allclose for a dtype: |a - e| <=
// atol + rtol * |e|. 0 and 0 for integers.
struct Closeness {
  double rtol = 0;
  double atol = 0;
};
Closeness default_closeness(Dtype dtype);

// Of some of the elements of a comparison: a rank's, or those of some rows. As Comparison has them
// of all.
struct Figures {
  std::uint64_t elements = 0, mismatches = 0, finite = 0;
  double max_error_over_bound = 0, max_absolute = 0, max_relative = 0;
  double squared_error = 0, squared_actual = 0, squared_expected = 0, dot = 0;
  bool has_worst = false;
  Mismatch worst;
  double rmse() const;
  double cosine() const;
  void merge(const Figures& other);
};

// A tensor's rows (all indices but the last), in at most kMost parts of `extent` rows each.
struct RowFigures {
  static constexpr std::uint64_t kMost = 256;
  std::uint64_t extent = 0;  // 0: of a tensor without rows
  std::uint64_t part = 0;    // elements of `extent` rows
  std::vector<Figures> parts;

  RowFigures() : RowFigures(Shape{}) {}
  explicit RowFigures(const Shape& shape);
  void merge(const RowFigures& other);
};

struct RankFigures {
  int rank = 0;
  Figures figures;
};

struct Comparison {
  std::string name;
  Dtype dtype = Dtype::bf16;
  Shape shape;
  bool bit_exact = false;
  std::uint64_t elements = 0;
  std::uint64_t mismatches = 0;
  // Of these: one side NaN, or one side infinite (or infinite with the other sign).
  std::uint64_t nan_mismatches = 0;
  std::uint64_t infinity_mismatches = 0;
  // Over the elements that are finite on both sides. Largest |actual - expected| / bound; infinite
  // where the bound is 0 and there is an error.
  double max_error_over_bound = 0;
  // Largest |actual - expected|; that over |expected|, and in units in the last place, where the
  // expected value is beyond its bound: of what may be 0 neither says anything.
  double max_absolute = 0;
  double max_relative = 0;
  double max_ulp = 0;
  // Sums for rmse() and cosine().
  std::uint64_t finite = 0;
  double squared_error = 0, squared_actual = 0, squared_expected = 0, dot = 0;
  // The smallest rtol at which allclose passes with the dtype's default atol, and the smallest atol
  // with its default rtol. Infinite where NaN or infinities differ.
  double close_rtol = 0;
  double close_atol = 0;
  // The element with the largest |actual - expected|, NaN and infinities that differ before all;
  // where any differs.
  bool has_worst = false;
  Mismatch worst;
  bool has_mismatch = false;
  ErrorHistogram histogram;
  HeatMap heat;
  Mismatch first;  // the lowest index that mismatches, where has_mismatch
  RowFigures rows;
  std::vector<RankFigures> ranks;  // that were told, in their order

  // A comparison of nothing is not a pass.
  bool passed() const { return elements > 0 && mismatches == 0; }

  // Root of the mean squared error, and the cosine of the angle between both, 1 where both are 0.
  double rmse() const;
  double cosine() const;

  // Says whose elements these are: in `ranks` alone, and where a place is told, too.
  void add_rank(int rank);
  void set_rank(int rank);

  // Adds a comparison of other elements of the same tensor (row blocks, ranks).
  void merge(const Comparison& other);
};

// Each element within its bound; NaN and infinities by class: NaN matches NaN only, infinity
// matches infinity of that sign (also an expected value within its bound of the overflow
// threshold). `first_index`: flat index of element 0 in the whole tensor of `shape`, for row
// blocks.
Comparison compare(std::string name, Dtype dtype, const Shape& shape, const std::uint16_t* actual,
                   const double* expected, const double* bound, std::size_t count,
                   std::size_t first_index = 0);

// The same of elements of any dtype as they lie in memory, aligned as they are.
Comparison compare(std::string name, Dtype dtype, const Shape& shape, const std::byte* actual,
                   const double* expected, const double* bound, std::size_t count,
                   std::size_t first_index = 0);

// The same for a whole tensor of any dtype. Throws InputError where shapes disagree.
Comparison compare(std::string name, const Tensor& actual, const std::vector<double>& expected,
                   const std::vector<double>& bound);

// Every bit equal. max_ulp is the distance in representable numbers; max_error_over_bound is 0 or
// infinite.
Comparison compare_bits(std::string name, Dtype dtype, const Shape& shape,
                        const std::uint16_t* actual, const std::uint16_t* expected,
                        std::size_t count, std::size_t first_index = 0);
Comparison compare_bits(std::string name, Dtype dtype, const Shape& shape, const std::byte* actual,
                        const std::byte* expected, std::size_t count, std::size_t first_index = 0);
Comparison compare_bits(std::string name, const Tensor& actual, const Tensor& expected);

// A comparison that notes elements one by one, for expectations that are no array of bounds.
class ElementComparison {
 public:
  // Throws InputError where there is nothing to compare.
  ElementComparison(std::string name, Dtype dtype, Shape shape, std::size_t count);
  // `bound`: how far `actual` may be off on the side where it is.
  void add(const Mismatch& element, bool right);
  Comparison take() { return std::move(c_); }

 private:
  Comparison c_;
};

// "[3, 17]", and "[3, 17] of rank 2" where a rank is told.
std::string place_text(const Comparison& comparison, const Mismatch& element);

// The text of an element's value: as many digits as tell it from its neighbours.
std::string value_text(Dtype dtype, double value);

// "first [3, 17]: got 1.25 (0x3fa0), expected 1.5 (0x3fc0), bound 0.0117": one line, empty where
// nothing mismatches.
std::string mismatch_text(const Comparison& comparison);

}  // namespace ringfence::verify

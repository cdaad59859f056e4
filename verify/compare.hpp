// Comparison of a tensor with what it should be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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
  std::uint32_t expected_bits = 0;  // the expected value rounded to the dtype
  std::uint32_t actual_bits = 0;
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
  // Largest |actual - expected| / bound, and in units in the last place of the expected value, over
  // the elements that are finite on both sides. Infinite where the bound is 0 and there is an
  // error.
  double max_error_over_bound = 0;
  double max_ulp = 0;
  bool has_mismatch = false;
  ErrorHistogram histogram;
  HeatMap heat;
  Mismatch first;  // the lowest index that mismatches, where has_mismatch

  // A comparison of nothing is not a pass.
  bool passed() const { return elements > 0 && mismatches == 0; }

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

// The same for a whole tensor of any dtype. Throws InputError where shapes disagree.
Comparison compare(std::string name, const Tensor& actual, const std::vector<double>& expected,
                   const std::vector<double>& bound);

// Every bit equal. max_ulp is the distance in representable numbers; max_error_over_bound is 0 or
// infinite.
Comparison compare_bits(std::string name, Dtype dtype, const Shape& shape,
                        const std::uint16_t* actual, const std::uint16_t* expected,
                        std::size_t count, std::size_t first_index = 0);
Comparison compare_bits(std::string name, const Tensor& actual, const Tensor& expected);

// "first [3, 17]: got 1.25 (0x3fa0), expected 1.5 (0x3fc0), bound 0.0117": one line, empty where
// nothing mismatches.
std::string mismatch_text(const Comparison& comparison);

}  // namespace ringfence::verify

// How the errors of a comparison are spread: over their sizes, and over the tensor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "verify/tensor.hpp"

namespace ringfence::verify {

// Elements by |actual - expected| / bound. kUpper[i] is the upper end of bin i, itself included;
// the last bin has what is beyond them, and elements that are NaN or infinite and should not be. In
// a bit-exact comparison an element is in the first bin or the last.
struct ErrorHistogram {
  static constexpr std::array<double, 7> kUpper{0, 1.0 / 64, 1.0 / 16, 0.25, 0.5, 1, 4};
  std::array<std::uint64_t, kUpper.size() + 1> counts{};

  void add(double ratio, std::uint64_t count = 1);
  void add_class_mismatch() { ++counts.back(); }
  // An element that was added as right was not.
  void move_to_last() {
    --counts.front();
    ++counts.back();
  }
  void merge(const ErrorHistogram& other);
};

// The mismatches of a tensor by rows (all indices but the last) and columns (the last), in at most
// kRows x kColumns cells of equal extents; the last ones may be smaller.
struct HeatMap {
  static constexpr std::uint32_t kRows = 16, kColumns = 64;
  std::uint32_t rows = 0, columns = 0;              // cells; 0 while nothing mismatches
  std::uint64_t row_extent = 0, column_extent = 0;  // elements of a cell along each
  std::uint64_t all_rows = 0, all_columns = 0;      // of the tensor
  std::vector<std::uint32_t> over;                  // mismatches, cell by cell, row-major

  void add(const Shape& shape, std::size_t index);
  void merge(const HeatMap& other);
  std::uint64_t elements(std::uint32_t row, std::uint32_t column) const;  // of a cell
};

}  // namespace ringfence::verify

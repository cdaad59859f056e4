#include "verify/spread.hpp"

#include <algorithm>

namespace ringfence::verify {

void ErrorHistogram::add(double ratio, std::uint64_t count) {
  if (ratio <= kUpper[0]) {  // most of them
    counts[0] += count;
    return;
  }
  const auto bin = std::lower_bound(kUpper.begin(), kUpper.end(), ratio);
  counts[static_cast<std::size_t>(bin - kUpper.begin())] += count;
}

void ErrorHistogram::merge(const ErrorHistogram& other) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
}

void HeatMap::add(const Shape& shape, std::size_t index) {
  if (over.empty()) {
    all_rows = 1;
    all_columns = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      (d + 1 == shape.size() ? all_columns : all_rows) *= static_cast<std::uint64_t>(shape[d]);
    }
    row_extent = (all_rows + kRows - 1) / kRows;
    column_extent = (all_columns + kColumns - 1) / kColumns;
    rows = static_cast<std::uint32_t>((all_rows + row_extent - 1) / row_extent);
    columns = static_cast<std::uint32_t>((all_columns + column_extent - 1) / column_extent);
    over.assign(std::size_t{rows} * columns, 0);
  }
  const std::uint64_t row = index / all_columns / row_extent;
  const std::uint64_t column = index % all_columns / column_extent;
  if (row < rows) ++over[row * columns + column];
}

void HeatMap::merge(const HeatMap& other) {
  if (other.over.empty()) return;
  if (over.empty()) {
    *this = other;
    return;
  }
  for (std::size_t i = 0; i < std::min(over.size(), other.over.size()); ++i) {
    over[i] += other.over[i];
  }
}

std::uint64_t HeatMap::elements(std::uint32_t row, std::uint32_t column) const {
  const std::uint64_t high = std::min(row_extent, all_rows - row * row_extent);
  const std::uint64_t wide = std::min(column_extent, all_columns - column * column_extent);
  return high * wide;
}

}  // namespace ringfence::verify

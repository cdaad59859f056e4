// Comparisons for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "verify/compare.hpp"

namespace ringfence::verify {

// The comparison table, one line a tensor, with a header line, and below it one line for the first
// mismatch of each tensor that has one:
//
//   tensor        dtype  elements  mismatches  error/bound  max ulp
//   out           bf16       6144           0        0.412     1.02  ok
//
// A bit-exact comparison prints "exact" for error/bound.
std::string comparison_table(const std::vector<Comparison>& comparisons);

// Elements compared in a cell of the heat map: of all replicas, where several are merged.
std::uint64_t cell_elements(const Comparison& comparison, std::uint32_t row, std::uint32_t column);

// Where a tensor mismatches, a line for each row of cells that has any; empty for one cell or none.
std::string heat_text(const Comparison& comparison);

// One line of it and its header, for reporters that print as they go.
std::string comparison_header();
std::string comparison_line(const Comparison& comparison);

bool all_passed(const std::vector<Comparison>& comparisons);  // false for none

}  // namespace ringfence::verify

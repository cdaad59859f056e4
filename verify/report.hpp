// Comparisons for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "verify/compare.hpp"

namespace ringfence::verify {

// The comparison table, one line a tensor, with a header line, and below it, of each tensor whose
// elements are not all what is expected, the worst of them and the first that mismatches:
//
//   tensor   dtype  elements mismatches error/bound   max abs   max rel      rmse    cosine
//   out       bf16      6144          0       0.412    0.0156   0.00781  0.000531  0.999998  ok
//   out: worst [3, 17] of rank 1: got 2.0156, expected 2; allclose passes at atol ... with rtol ...
//
// A bit-exact comparison prints "exact" for error/bound. Units in the last place are not shown:
// near zero an element within its bound may be thousands of them off.
std::string comparison_table(const std::vector<Comparison>& comparisons);

// Elements compared in a cell of the heat map: of all replicas, where several are merged.
std::uint64_t cell_elements(const Comparison& comparison, std::uint32_t row, std::uint32_t column);

// Where a tensor mismatches, a line for each row of cells that has any; empty for one cell or none.
// By rank where several are told, and the rows that are off most: lines of the table, where any
// element mismatches.
std::string parts_text(const Comparison& comparison);
// The parts of the rows that mismatch or are off, those with most mismatches first, then by error.
std::vector<std::size_t> worst_rows(const Comparison& comparison, std::size_t most);
// "row 3", "rows 4 to 7": of a part of the rows.
std::string rows_text(const Comparison& comparison, std::size_t part);
std::string heat_text(const Comparison& comparison);

// One line of it and its header, for reporters that print as they go.
std::string comparison_header();
std::string comparison_line(const Comparison& comparison);

// "worst [3, 17]: got 2.0156, expected 2; allclose passes at ..."; empty where nothing differs.
std::string worst_text(const Comparison& comparison);

bool all_passed(const std::vector<Comparison>& comparisons);  // false for none

}  // namespace ringfence::verify

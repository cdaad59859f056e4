// Comparisons as JSON objects, for the "tensors" array of the commands' results.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "verify/compare.hpp"

namespace ringfence::verify {

// {"name", "elements", "mismatches", "max_error_over_bound", "max_ulp"}, then "dtype", "shape",
// "bit_exact", "histogram": {"upper", "counts"}, where it mismatches "heat_map": {"row_extent",
// "column_extent", "mismatches"} (see spread.hpp), and where it has one "first_mismatch": {"index",
// "expected", "actual", "bound", "expected_bits", "actual_bits"}. JSON has no infinity or NaN: such
// numbers are the strings "inf", "-inf", "nan".
nlohmann::ordered_json to_json(const Comparison& comparison);
nlohmann::ordered_json to_json(const std::vector<Comparison>& comparisons);

}  // namespace ringfence::verify

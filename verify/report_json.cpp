#include "verify/report_json.hpp"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace ringfence::verify {
namespace {

using nlohmann::ordered_json;

ordered_json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

std::string hexadecimal(Dtype dtype, std::uint32_t bits) {
  return fmt::format("0x{:0{}x}", bits, dtype == Dtype::f32 ? 8 : 4);
}

}  // namespace

ordered_json to_json(const Comparison& c) {
  ordered_json object;
  object["name"] = c.name;
  object["elements"] = c.elements;
  object["mismatches"] = c.mismatches;
  object["max_error_over_bound"] = number(c.max_error_over_bound);
  object["max_ulp"] = number(c.max_ulp);
  object["dtype"] = dtype_name(c.dtype);
  object["shape"] = c.shape;
  object["bit_exact"] = c.bit_exact;
  object["histogram"] =
      ordered_json{{"upper", ErrorHistogram::kUpper}, {"counts", c.histogram.counts}};
  if (!c.heat.over.empty()) {
    ordered_json rows = ordered_json::array();
    for (std::uint32_t r = 0; r < c.heat.rows; ++r) {
      const auto row = c.heat.over.begin() + static_cast<std::ptrdiff_t>(r * c.heat.columns);
      rows.push_back(std::vector<std::uint32_t>(row, row + c.heat.columns));
    }
    object["heat_map"] = ordered_json{{"row_extent", c.heat.row_extent},
                                      {"column_extent", c.heat.column_extent},
                                      {"mismatches", rows}};
  }
  if (c.has_mismatch) {
    ordered_json first;
    first["index"] = c.first.index;
    first["expected"] = number(c.first.expected);
    first["actual"] = number(c.first.actual);
    first["bound"] = number(c.first.bound);
    first["expected_bits"] = hexadecimal(c.dtype, c.first.expected_bits);
    first["actual_bits"] = hexadecimal(c.dtype, c.first.actual_bits);
    object["nan_mismatches"] = c.nan_mismatches;
    object["infinity_mismatches"] = c.infinity_mismatches;
    object["first_mismatch"] = std::move(first);
  }
  return object;
}

ordered_json to_json(const std::vector<Comparison>& comparisons) {
  ordered_json array = ordered_json::array();
  for (const Comparison& c : comparisons) array.push_back(to_json(c));
  return array;
}

}  // namespace ringfence::verify

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

std::string hexadecimal(Dtype dtype, std::uint64_t bits) {
  return fmt::format("0x{:0{}x}", bits, dtype_bytes(dtype) * 2);
}

ordered_json element(const Comparison& c, const Mismatch& m) {
  ordered_json object;
  object["index"] = m.index;
  if (m.rank >= 0) object["rank"] = m.rank;
  object["place"] = place_text(c, m);
  object["expected"] = number(m.expected);
  object["actual"] = number(m.actual);
  object["bound"] = number(m.bound);
  object["expected_bits"] = hexadecimal(c.dtype, m.expected_bits);
  object["actual_bits"] = hexadecimal(c.dtype, m.actual_bits);
  return object;
}

ordered_json figures(const Comparison& c, const Figures& f) {
  ordered_json object;
  object["elements"] = f.elements;
  object["mismatches"] = f.mismatches;
  object["max_error_over_bound"] = number(f.max_error_over_bound);
  object["max_absolute"] = number(f.max_absolute);
  object["max_relative"] = number(f.max_relative);
  object["rmse"] = number(f.rmse());
  object["cosine"] = number(f.cosine());
  object["worst"] = f.has_worst ? ordered_json{{"place", place_text(c, f.worst)},
                                               {"expected", number(f.worst.expected)},
                                               {"actual", number(f.worst.actual)}}
                                : ordered_json(nullptr);
  return object;
}

}  // namespace

ordered_json to_json(const Comparison& c) {
  ordered_json object;
  object["name"] = c.name;
  object["elements"] = c.elements;
  object["mismatches"] = c.mismatches;
  object["max_error_over_bound"] = number(c.max_error_over_bound);
  object["max_ulp"] = number(c.max_ulp);
  object["max_absolute"] = number(c.max_absolute);
  object["max_relative"] = number(c.max_relative);
  object["rmse"] = number(c.rmse());
  object["cosine"] = number(c.cosine());
  const Closeness defaults = default_closeness(c.dtype);
  object["allclose"] = ordered_json{{"rtol", number(c.close_rtol)},
                                    {"with_atol", defaults.atol},
                                    {"atol", number(c.close_atol)},
                                    {"with_rtol", defaults.rtol}};
  object["worst"] = c.has_worst ? element(c, c.worst) : ordered_json(nullptr);
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
  ordered_json ranks = ordered_json::array();
  for (const RankFigures& r : c.ranks) {
    ordered_json one{{"rank", r.rank}};
    one.update(figures(c, r.figures));
    ranks.push_back(std::move(one));
  }
  object["ranks"] = std::move(ranks);
  // Where nothing is off, all rows say the same.
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < c.rows.parts.size(); ++i) {
    if (!c.rows.parts[i].has_worst) continue;
    ordered_json one{{"first_row", i * c.rows.extent}};
    one.update(figures(c, c.rows.parts[i]));
    rows.push_back(std::move(one));
  }
  object["rows"] = ordered_json{{"extent", c.rows.extent}, {"off", std::move(rows)}};
  if (c.has_mismatch) {
    object["nan_mismatches"] = c.nan_mismatches;
    object["infinity_mismatches"] = c.infinity_mismatches;
    object["first_mismatch"] = element(c, c.first);
  }
  return object;
}

ordered_json to_json(const std::vector<Comparison>& comparisons) {
  ordered_json array = ordered_json::array();
  for (const Comparison& c : comparisons) array.push_back(to_json(c));
  return array;
}

}  // namespace ringfence::verify

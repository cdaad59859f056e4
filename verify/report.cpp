#include "verify/report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace ringfence::verify {
namespace {

// Names are columns of this width; a longer one pushes its own line only.
constexpr int kNameWidth = 24;

std::string ratio_text(const Comparison& c) {
  if (c.bit_exact) return "exact";
  if (std::isinf(c.max_error_over_bound)) return "inf";
  // A wrong exponent is off by more digits than a column has.
  const double ratio = c.max_error_over_bound;
  return ratio < 1e6 ? fmt::format("{:.3f}", ratio) : fmt::format("{:.3g}", ratio);
}

// Three digits, no wider than its column.
std::string figure(double value) { return fmt::format("{:.3g}", value); }

std::string cosine_text(double cosine) { return cosine == 1 ? "1" : fmt::format("{:.6f}", cosine); }

}  // namespace

std::string comparison_header() {
  return fmt::format("{:<{}} {:>5} {:>10} {:>10} {:>11} {:>9} {:>9} {:>9} {:>9}", "tensor",
                     kNameWidth, "dtype", "elements", "mismatches", "error/bound", "max abs",
                     "max rel", "rmse", "cosine");
}

std::string comparison_line(const Comparison& c) {
  return fmt::format("{:<{}} {:>5} {:>10} {:>10} {:>11} {:>9} {:>9} {:>9} {:>9}  {}", c.name,
                     kNameWidth, dtype_name(c.dtype), c.elements, c.mismatches, ratio_text(c),
                     figure(c.max_absolute), figure(c.max_relative), figure(c.rmse()),
                     cosine_text(c.cosine()), c.passed() ? "ok" : "MISMATCH");
}

std::string worst_text(const Comparison& c) {
  if (!c.has_worst) return "";
  const Mismatch& m = c.worst;
  const Closeness close = default_closeness(c.dtype);
  std::string text = fmt::format("worst {}: got {}, expected {}", place_text(c, m),
                                 value_text(c.dtype, m.actual), value_text(c.dtype, m.expected));
  if (std::isinf(c.close_atol)) return text + "; allclose passes at no tolerance";
  text += fmt::format("; allclose passes at atol {} with rtol {}", figure(c.close_atol),
                      figure(close.rtol));
  return std::isinf(c.close_rtol) ? text
                                  : text + fmt::format(", at rtol {} with atol {}",
                                                       figure(c.close_rtol), figure(close.atol));
}

std::string comparison_table(const std::vector<Comparison>& comparisons) {
  std::string table = comparison_header() + "\n";
  for (const Comparison& c : comparisons) table += comparison_line(c) + "\n";
  for (const Comparison& c : comparisons) {
    if (c.has_worst) table += fmt::format("{}: {}\n", c.name, worst_text(c));
    if (!c.has_mismatch) continue;
    table += fmt::format("{}: {}", c.name, mismatch_text(c));
    if (c.nan_mismatches + c.infinity_mismatches > 0) {
      table += fmt::format("; {} NaN and {} infinity mismatches", c.nan_mismatches,
                           c.infinity_mismatches);
    }
    table += "\n" + parts_text(c) + heat_text(c);
  }
  return table;
}

std::vector<std::size_t> worst_rows(const Comparison& c, std::size_t most) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < c.rows.parts.size(); ++i) {
    if (c.rows.parts[i].has_worst) out.push_back(i);
  }
  std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) {
    const Figures &x = c.rows.parts[a], &y = c.rows.parts[b];
    return x.mismatches != y.mismatches ? x.mismatches > y.mismatches
                                        : x.max_absolute > y.max_absolute;
  });
  if (out.size() > most) out.resize(most);
  return out;
}

std::string rows_text(const Comparison& c, std::size_t part) {
  const std::uint64_t first = part * c.rows.extent;
  if (c.rows.extent == 1) return fmt::format("row {}", first);
  std::uint64_t all = 1;
  for (std::size_t d = 0; d + 1 < c.shape.size(); ++d) {
    all *= static_cast<std::uint64_t>(c.shape[d]);
  }
  return fmt::format("rows {} to {}", first, std::min(first + c.rows.extent, all) - 1);
}

std::string parts_text(const Comparison& c) {
  const auto told = [](const Figures& f) {
    return fmt::format("{} of {} mismatch, max abs {}, max rel {}, rmse {}, cosine {}",
                       f.mismatches, f.elements, figure(f.max_absolute), figure(f.max_relative),
                       figure(f.rmse()), cosine_text(f.cosine()));
  };
  std::string text;
  if (c.ranks.size() > 1) {
    for (const RankFigures& r : c.ranks) {
      text += fmt::format("  rank {}: {}\n", r.rank, told(r.figures));
    }
  }
  constexpr std::size_t kRows = 4;
  if (c.rows.parts.size() > 1) {
    for (const std::size_t i : worst_rows(c, kRows)) {
      if (c.rows.parts[i].mismatches == 0) break;
      text += fmt::format("  {}: {}\n", rows_text(c, i), told(c.rows.parts[i]));
    }
  }
  return text;
}

std::uint64_t cell_elements(const Comparison& c, std::uint32_t row, std::uint32_t column) {
  const std::uint64_t tensor = c.heat.all_rows * c.heat.all_columns;
  return c.heat.elements(row, column) * std::max<std::uint64_t>(1, c.elements / tensor);
}

std::string heat_text(const Comparison& c) {
  const HeatMap& m = c.heat;
  if (m.rows * m.columns < 2) return "";
  constexpr std::string_view kShades = ".:-=+*#%@";
  std::string text = fmt::format("  where, {} rows x {} columns a cell, . few to @ all:\n",
                                 m.row_extent, m.column_extent);
  for (std::uint32_t r = 0; r < m.rows; ++r) {
    std::string line;
    for (std::uint32_t k = 0; k < m.columns; ++k) {
      const std::uint64_t over = m.over[r * m.columns + k];
      const std::uint64_t all = cell_elements(c, r, k);
      line += over == 0 ? ' '
                        : kShades[std::min<std::uint64_t>(over, all) * (kShades.size() - 1) / all];
    }
    if (line.find_first_not_of(' ') == std::string::npos) continue;
    text += fmt::format("  row {:>6} |{}|\n", r * m.row_extent, line);
  }
  return text;
}

bool all_passed(const std::vector<Comparison>& comparisons) {
  for (const Comparison& c : comparisons) {
    if (!c.passed()) return false;
  }
  return !comparisons.empty();
}

}  // namespace ringfence::verify

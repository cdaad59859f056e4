#include "verify/report_html.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "verify/markup.hpp"
#include "verify/report.hpp"

namespace ringfence::verify {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5d6670; --line: #d5d9de; --bar: #2f7ed8; --bad: #c8102e; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --soft: #99a3ad; --line: #363c43; --bar: #5ea4f3; --bad: #ff5c6c; --paper: #14171a; } }
body { font: 14px/1.45 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); background: var(--paper); margin: 20px; }
h1 { font-size: 18px; } h2 { font-size: 14px; margin: 22px 0 4px; }
table { border-collapse: collapse; } th, td { text-align: right; padding: 1px 12px 1px 0; } th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); } .bad { color: var(--bad); font-weight: 700; }
svg text { fill: var(--soft); font-size: 11px; } .bar { fill: var(--bar); } .over { fill: var(--bad); } .frame { fill: none; stroke: var(--line); }
p { margin: 2px 0; color: var(--soft); }
)";

// Bars are as high as the logarithm of their counts: one element must show beside a million.
std::string histogram_svg(const Comparison& c) {
  constexpr int kWide = 62, kHigh = 90;
  const auto& counts = c.histogram.counts;
  const double most =
      std::log1p(static_cast<double>(*std::max_element(counts.begin(), counts.end())));
  std::string out =
      fmt::format("<svg width=\"{}\" height=\"{}\" role=\"img\" aria-label=\"errors of {}\">",
                  kWide * static_cast<int>(counts.size()) + 4, kHigh + 40, for_attribute(c.name));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (c.bit_exact && i > 0 && i + 1 < counts.size()) continue;  // equal or not, nothing between
    const int x = kWide * static_cast<int>(i);
    const double high =
        counts[i] == 0 ? 0
                       : std::max(2.0, kHigh * std::log1p(static_cast<double>(counts[i])) / most);
    const bool over = i + 1 == counts.size() || ErrorHistogram::kUpper[i] > 1;
    const std::string label = i == 0        ? "equal"
                              : c.bit_exact ? "different"
                              : i == ErrorHistogram::kUpper.size()
                                  ? fmt::format("> {:g}", ErrorHistogram::kUpper.back())
                                  : fmt::format("\u2264 {:.3g}", ErrorHistogram::kUpper[i]);
    out += fmt::format(
        "<rect class=\"{}\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\"/>"
        "<text x=\"{}\" y=\"{:.1f}\">{}</text><text x=\"{}\" y=\"{}\">{}</text>",
        over ? "over" : "bar", x, 16 + kHigh - high, kWide - 8, high, x, 12 + kHigh - high,
        counts[i], x, kHigh + 32, label);
  }
  return out + "</svg>";
}

std::string heat_svg(const Comparison& c) {
  const HeatMap& m = c.heat;
  const int size = std::clamp(900 / static_cast<int>(m.columns), 6, 24);
  std::string out = fmt::format(
      "<svg width=\"{}\" height=\"{}\" role=\"img\" aria-label=\"where {} is over its bound\">"
      "<rect class=\"frame\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\"/>",
      m.columns * size + 2, m.rows * size + 2, for_attribute(c.name), m.columns * size + 1,
      m.rows * size + 1);
  for (std::uint32_t r = 0; r < m.rows; ++r) {
    for (std::uint32_t k = 0; k < m.columns; ++k) {
      const std::uint32_t over = m.over[r * m.columns + k];
      if (over == 0) continue;
      const double share = static_cast<double>(over) / static_cast<double>(cell_elements(c, r, k));
      out += fmt::format(
          "<rect class=\"over\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
          "opacity=\"{:.2f}\"><title>rows {}-{}, columns {}-{}: {} of {}</title></rect>",
          1 + k * size, 1 + r * size, size - 1, size - 1, std::min(1.0, 0.25 + 0.75 * share),
          r * m.row_extent, std::min((r + 1) * m.row_extent, m.all_rows) - 1, k * m.column_extent,
          std::min((k + 1) * m.column_extent, m.all_columns) - 1, over, cell_elements(c, r, k));
    }
  }
  return out + "</svg>";
}

}  // namespace

std::string comparison_html(const std::string& title, const std::vector<Comparison>& comparisons) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"
      "<title>{0}</title><style>{1}</style></head>\n<body>\n<h1>{0}</h1>\n<table>\n"
      "<tr><th>tensor</th><th>dtype</th><th>shape</th><th>elements</th><th>mismatches</th>"
      "<th>error/bound</th><th>max abs</th><th>max rel</th><th>rmse</th><th>cosine</th><th></th>"
      "</tr>\n",
      for_element(title), kStyle);
  for (const Comparison& c : comparisons) {
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.3g}</td>"
        "<td>{:.3g}</td><td>{:.3g}</td><td>{:.6f}</td><td{}>{}</td></tr>\n",
        for_element(c.name), dtype_name(c.dtype), shape_text(c.shape), c.elements, c.mismatches,
        c.bit_exact ? "exact" : fmt::format("{:.3f}", c.max_error_over_bound), c.max_absolute,
        c.max_relative, c.rmse(), c.cosine(), c.passed() ? "" : " class=\"bad\"",
        c.passed() ? "ok" : "MISMATCH");
  }
  out += "</table>\n";
  for (const Comparison& c : comparisons) {
    out += fmt::format("<h2>{}: elements by {}</h2>\n{}\n", for_element(c.name),
                       c.bit_exact ? "equal bits or not" : "error / bound (heights logarithmic)",
                       histogram_svg(c));
    if (c.has_worst) out += fmt::format("<p>{}</p>\n", for_element(worst_text(c)));
    if (c.heat.over.empty()) continue;
    out += fmt::format(
        "<p class=\"bad\">{}</p>\n<p>where it mismatches: a cell is {} rows x {} columns, rows go "
        "down</p>\n{}\n",
        for_element(mismatch_text(c)), c.heat.row_extent, c.heat.column_extent, heat_svg(c));
  }
  return out + "</body>\n</html>\n";
}

}  // namespace ringfence::verify

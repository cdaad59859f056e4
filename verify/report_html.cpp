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
svg text { fill: var(--soft); font-size: 11px; } .bar { fill: var(--bar); } .over { fill: var(--bad); } .frame { fill: none; stroke: var(--line); } .worst { fill: none; stroke: var(--ink); stroke-width: 1.5; }
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

// A step of axis labels that leaves `room` between them, from cells of `extent`.
std::uint32_t label_step(std::uint32_t cells, int size, int room) {
  std::uint32_t step = 1;
  while (step < cells && static_cast<int>(step) * size < room) step *= 2;
  return step;
}

// Rows go down and columns across, with their numbers at the axes; a ring is the worst element.
std::string heat_svg(const Comparison& c) {
  constexpr int kLeft = 64, kTop = 20;
  const HeatMap& m = c.heat;
  const int size = std::clamp(900 / static_cast<int>(m.columns), 6, 24);
  const int wide = static_cast<int>(m.columns) * size, high = static_cast<int>(m.rows) * size;
  std::string out = fmt::format(
      "<svg width=\"{}\" height=\"{}\" role=\"img\" aria-label=\"where {} is over its bound\">"
      "<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>"
      "<text x=\"0\" y=\"12\">row</text>",
      kLeft + wide + 60, kTop + high + 4, for_attribute(c.name), kLeft + 0.5, kTop + 0.5, wide + 1,
      high + 1);
  for (std::uint32_t k = 0; k < m.columns; k += label_step(m.columns, size, 48)) {
    out += fmt::format("<text class=\"axis\" x=\"{}\" y=\"12\">{}</text>",
                       kLeft + static_cast<int>(k) * size,
                       k == 0 ? "column 0" : fmt::format("{}", k * m.column_extent));
    // The word takes the room of the next label where cells are small.
    if (k == 0 && static_cast<int>(label_step(m.columns, size, 48)) * size < 64) {
      k += label_step(m.columns, size, 48);
    }
  }
  for (std::uint32_t r = 0; r < m.rows; r += label_step(m.rows, size, 13)) {
    out += fmt::format("<text class=\"axis\" x=\"0\" y=\"{}\">{}</text>",
                       kTop + static_cast<int>(r) * size + std::min(size, 12), r * m.row_extent);
  }
  for (std::uint32_t r = 0; r < m.rows; ++r) {
    for (std::uint32_t k = 0; k < m.columns; ++k) {
      const std::uint32_t over = m.over[r * m.columns + k];
      if (over == 0) continue;
      const double share = static_cast<double>(over) / static_cast<double>(cell_elements(c, r, k));
      out += fmt::format(
          "<rect class=\"over\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
          "opacity=\"{:.2f}\"><title>rows {}-{}, columns {}-{}: {} of {}</title></rect>",
          kLeft + 1 + static_cast<int>(k) * size, kTop + 1 + static_cast<int>(r) * size, size - 1,
          size - 1, std::min(1.0, 0.25 + 0.75 * share), r * m.row_extent,
          std::min((r + 1) * m.row_extent, m.all_rows) - 1, k * m.column_extent,
          std::min((k + 1) * m.column_extent, m.all_columns) - 1, over, cell_elements(c, r, k));
    }
  }
  if (c.has_worst) {
    const std::uint64_t row = c.worst.index / m.all_columns / m.row_extent;
    const std::uint64_t column = c.worst.index % m.all_columns / m.column_extent;
    out += fmt::format(
        "<circle class=\"worst\" cx=\"{}\" cy=\"{}\" r=\"{}\"><title>worst: {}</title></circle>",
        kLeft + 1 + static_cast<int>(column) * size + size / 2,
        kTop + 1 + static_cast<int>(row) * size + size / 2, size / 2 + 2,
        for_element(place_text(c, c.worst)));
  }
  return out + "</svg>";
}

// The largest error of each part of the rows.
std::string rows_svg(const Comparison& c) {
  constexpr int kLeft = 64, kHigh = 80, kTop = 14;
  const auto& parts = c.rows.parts;
  const int size = std::clamp(900 / static_cast<int>(parts.size()), 3, 24);
  const int wide = size * static_cast<int>(parts.size());
  double most = 0;
  for (const Figures& f : parts) most = std::max(most, f.max_absolute);
  std::string out = fmt::format(
      "<svg width=\"{}\" height=\"{}\" role=\"img\" aria-label=\"errors of {} by row\">"
      "<text x=\"0\" y=\"{}\">{:.3g}</text><text x=\"0\" y=\"{}\">0</text>"
      "<line class=\"frame\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>"
      "<text x=\"0\" y=\"{}\">row</text>",
      kLeft + wide + 60, kTop + kHigh + 22, for_attribute(c.name), kTop + 4, most, kTop + kHigh,
      kLeft, kLeft + wide, kTop + kHigh + 0.5, kTop + kHigh + 0.5, kTop + kHigh + 16);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Figures& f = parts[i];
    if (!f.has_worst) continue;
    // What is no number is as high as what is furthest off.
    const bool class_differs = !std::isfinite(f.worst.actual) || !std::isfinite(f.worst.expected);
    const double high =
        class_differs || most == 0 ? kHigh : std::max(2.0, kHigh * f.max_absolute / most);
    out += fmt::format(
        "<rect class=\"{}\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\"><title>{}: {} of "
        "{} mismatch, max abs {:.3g}</title></rect>",
        f.mismatches > 0 ? "over" : "bar", kLeft + static_cast<int>(i) * size, kTop + kHigh - high,
        std::max(1, size - 1), high, rows_text(c, i), f.mismatches, f.elements, f.max_absolute);
  }
  const auto all = static_cast<std::uint32_t>(parts.size());
  for (std::uint32_t i = 0; i < all; i += label_step(all, size, 48)) {
    out += fmt::format("<text class=\"axis\" x=\"{}\" y=\"{}\">{}</text>",
                       kLeft + static_cast<int>(i) * size, kTop + kHigh + 16, i * c.rows.extent);
  }
  return out + "</svg>";
}

std::string figures_row(const Comparison& c, const std::string& whose, const Figures& f) {
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td{}>{}</td><td>{}</td><td>{:.3g}</td><td>{:.3g}</td>"
      "<td>{:.3g}</td><td>{:.6f}</td><td>{}</td></tr>\n",
      whose, f.elements, f.mismatches > 0 ? " class=\"bad\"" : "", f.mismatches,
      c.bit_exact ? "exact" : fmt::format("{:.3f}", f.max_error_over_bound), f.max_absolute,
      f.max_relative, f.rmse(), f.cosine(),
      f.has_worst ? for_element(fmt::format("{}: got {}, expected {}", place_text(c, f.worst),
                                            value_text(c.dtype, f.worst.actual),
                                            value_text(c.dtype, f.worst.expected)))
                  : "");
}

// By rank, and the rows that are off most.
std::string parts_html(const Comparison& c) {
  const std::string head =
      "<th>elements</th><th>mismatches</th><th>error/bound</th><th>max abs</th><th>max rel</th>"
      "<th>rmse</th><th>cosine</th><th>worst</th></tr>\n";
  std::string out;
  if (!c.ranks.empty()) {
    out += "<table>\n<tr><th>rank</th>" + head;
    for (const RankFigures& r : c.ranks) {
      out += figures_row(c, fmt::format("rank {}", r.rank), r.figures);
    }
    out += "</table>\n";
  }
  constexpr std::size_t kRows = 8;
  const auto rows = worst_rows(c, kRows);
  if (rows.empty() || c.rows.parts.size() < 2) return out;
  out += "<p>largest error by row:</p>\n" + rows_svg(c) + "\n<table>\n<tr><th>row</th>" + head;
  for (const std::size_t i : rows) out += figures_row(c, rows_text(c, i), c.rows.parts[i]);
  return out + "</table>\n";
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
    out += parts_html(c);
    if (c.heat.over.empty()) continue;
    out += fmt::format(
        "<p class=\"bad\">{}</p>\n<p>where it mismatches: a cell is {} rows x {} columns; the ring "
        "is "
        "the worst element's</p>\n{}\n",
        for_element(mismatch_text(c)), c.heat.row_extent, c.heat.column_extent, heat_svg(c));
  }
  return out + "</body>\n</html>\n";
}

}  // namespace ringfence::verify

#include "verify/report.hpp"

#include <fmt/core.h>

#include <cmath>

namespace ringfence::verify {
namespace {

// Names are columns of this width; a longer one pushes its own line only.
constexpr int kNameWidth = 24;

std::string ratio_text(const Comparison& c) {
  if (c.bit_exact) return "exact";
  if (std::isinf(c.max_error_over_bound)) return "inf";
  return fmt::format("{:.3f}", c.max_error_over_bound);
}

std::string ulp_text(const Comparison& c) {
  return c.max_ulp < 1e6 ? fmt::format("{:.2f}", c.max_ulp) : fmt::format("{:.2e}", c.max_ulp);
}

}  // namespace

std::string comparison_header() {
  return fmt::format("{:<{}} {:>5} {:>12} {:>11} {:>12} {:>9}", "tensor", kNameWidth, "dtype",
                     "elements", "mismatches", "error/bound", "max ulp");
}

std::string comparison_line(const Comparison& c) {
  return fmt::format("{:<{}} {:>5} {:>12} {:>11} {:>12} {:>9}  {}", c.name, kNameWidth,
                     dtype_name(c.dtype), c.elements, c.mismatches, ratio_text(c), ulp_text(c),
                     c.passed() ? "ok" : "MISMATCH");
}

std::string comparison_table(const std::vector<Comparison>& comparisons) {
  std::string table = comparison_header() + "\n";
  for (const Comparison& c : comparisons) table += comparison_line(c) + "\n";
  for (const Comparison& c : comparisons) {
    if (!c.has_mismatch) continue;
    table += fmt::format("{}: {}", c.name, mismatch_text(c));
    if (c.nan_mismatches + c.infinity_mismatches > 0) {
      table += fmt::format("; {} NaN and {} infinity mismatches", c.nan_mismatches,
                           c.infinity_mismatches);
    }
    table += "\n";
  }
  return table;
}

bool all_passed(const std::vector<Comparison>& comparisons) {
  for (const Comparison& c : comparisons) {
    if (!c.passed()) return false;
  }
  return !comparisons.empty();
}

}  // namespace ringfence::verify

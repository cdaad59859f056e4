// Comparisons as one self-contained HTML page.
#pragma once

#include <string>
#include <vector>

#include "verify/compare.hpp"

namespace ringfence::verify {

// The table, a histogram of error over bound for each tensor, and for each that mismatches a heat
// map of rows x columns. `title` heads the page. It loads nothing.
std::string comparison_html(const std::string& title, const std::vector<Comparison>& comparisons);

}  // namespace ringfence::verify

#include "verify/spread.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "verify/compare.hpp"
#include "verify/report.hpp"
#include "verify/report_html.hpp"

namespace ringfence::verify {
namespace {

constexpr std::int64_t kRows = 40, kColumns = 128;

struct Case {
  std::vector<std::uint16_t> actual;
  std::vector<double> expected, bound;
  Case()
      : actual(kRows * kColumns, 0x3f80),  // 1.0
        expected(actual.size(), 1.0),
        bound(actual.size(), 0.5) {}
  Comparison compared(std::size_t from = 0, std::size_t count = kRows * kColumns) const {
    return compare("out", Dtype::bf16, {kRows, kColumns}, actual.data() + from,
                   expected.data() + from, bound.data() + from, count, from);
  }
};

template <class T>
std::uint64_t sum(const T& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

TEST_CASE("each element is in the bin of its error over its bound, edges included") {
  Case c;
  c.actual[0] = 0x3f00;  // 0.5: error 0.5, ratio 1
  c.actual[1] = 0x3f40;  // 0.75: ratio 0.5
  c.actual[2] = 0x4000;  // 2.0: ratio 2
  c.actual[3] = 0x4080;  // 4.0: ratio 6
  c.actual[4] = 0x7fc0;  // NaN
  c.expected[5] = std::numeric_limits<double>::infinity();
  c.actual[5] = 0x7f80;  // the infinity that is due
  const Comparison r = c.compared();
  const auto& n = r.histogram.counts;
  CHECK(sum(n) == r.elements);
  CHECK(n[0] == r.elements - 5);  // equal, the infinity among them
  CHECK(n[4] == 1);               // (1/4, 1/2]
  CHECK(n[5] == 1);               // (1/2, 1]
  CHECK(n[6] == 1);               // (1, 4]
  CHECK(n[7] == 2);               // beyond, and the NaN
  CHECK(r.mismatches == n[6] + n[7]);
}

TEST_CASE(
    "a wrong vector is hot where it lies and nowhere else, and every mismatch is in the map") {
  Case c;
  CHECK(c.compared().heat.over.empty());
  for (std::int64_t i = 0; i < 8; ++i) c.actual[7 * kColumns + 64 + i] = 0x4100;  // row 7
  const Comparison r = c.compared();
  REQUIRE(r.heat.rows == 14);  // 40 rows in cells of 3
  REQUIRE(r.heat.columns == 64);
  CHECK(sum(r.heat.over) == 8);
  for (std::uint32_t row = 0; row < r.heat.rows; ++row) {
    for (std::uint32_t k = 0; k < r.heat.columns; ++k) {
      const bool there = row == 2 && k >= 32 && k < 36;
      CHECK(r.heat.over[row * r.heat.columns + k] == (there ? 2u : 0u));
    }
  }
  CHECK(r.heat.elements(0, 0) == 6);
  CHECK(r.heat.elements(13, 0) == 2);  // one row is left for the last
  const std::string text = heat_text(r);
  CHECK(text.find("row      6 |") != std::string::npos);
  CHECK(text.find("row      0 |") == std::string::npos);
}

TEST_CASE("parts merge to what the whole gives") {
  Case c;
  c.actual[5] = c.actual[2000] = c.actual[5000] = 0x4100;
  const Comparison whole = c.compared();
  Comparison parts = c.compared(0, 1000);
  parts.merge(c.compared(1000, 3000));
  parts.merge(c.compared(4000, kRows * kColumns - 4000));
  CHECK(parts.histogram.counts == whole.histogram.counts);
  CHECK(parts.heat.over == whole.heat.over);
  CHECK(sum(whole.heat.over) == 3);
}

TEST_CASE("replicas merged into one comparison count in its cells") {
  Case c;
  for (std::int64_t i = 0; i < 6; ++i) c.actual[(i / 2) * kColumns + i % 2] = 0x4100;  // one cell
  Comparison both = c.compared();
  CHECK(cell_elements(both, 0, 0) == 6);
  CHECK(heat_text(both).find("row      0 |@") != std::string::npos);
  both.merge(Case().compared());  // a replica that is right
  CHECK(cell_elements(both, 0, 0) == 12);
  CHECK(heat_text(both).find("row      0 |+") != std::string::npos);  // half of them
}

TEST_CASE("the HTML has the table, a histogram each, a heat map where something is wrong") {
  Case c;
  const Comparison good = c.compared();
  c.actual[700] = 0x4100;
  const std::string page = comparison_html("run <x>", {good, c.compared()});
  const auto count = [&](const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = page.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  CHECK(count("<svg") == 3);
  CHECK(count("MISMATCH") == 1);
  CHECK(count("<title>rows 3-5, columns 60-61: 1 of 6</title>") == 1);
  CHECK(count("run &lt;x&gt;") == 2);
  CHECK(count("http") == 0);
}

TEST_CASE("a tensor's name cannot end the attribute that holds it") {
  Case c;
  Comparison named = c.compared();
  named.name = "a\" onload=\"b";
  const std::string page = comparison_html("run", {named});
  CHECK(page.find("aria-label=\"errors of a&quot; onload=&quot;b\"") != std::string::npos);
  CHECK(page.find("\" onload=") == std::string::npos);
}

}  // namespace
}  // namespace ringfence::verify

#include "verify/spread.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "verify/compare.hpp"
#include "verify/report.hpp"
#include "verify/report_html.hpp"
#include "verify/report_json.hpp"

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
  CHECK(count("<svg") == 4);  // and the errors by row
  CHECK(count("MISMATCH") == 1);
  CHECK(count("<title>rows 3-5, columns 60-61: 1 of 6</title>") == 1);
  CHECK(count("run &lt;x&gt;") == 2);
  CHECK(count("http") == 0);
}

TEST_CASE("each rank and each row has figures of its own") {
  Case c;
  Comparison both = c.compared();
  both.set_rank(0);
  for (std::int64_t i = 0; i < 8; ++i) c.actual[7 * kColumns + 64 + i] = 0x4100;  // 8.0, not 1.0
  c.actual[9 * kColumns] = 0x3fa0;  // 1.25: off, and within its bound
  Comparison one = c.compared();
  one.set_rank(1);
  both.merge(one);

  REQUIRE(both.ranks.size() == 2);
  CHECK(both.ranks[0].figures.mismatches == 0);
  CHECK(both.ranks[0].figures.elements == kRows * kColumns);
  CHECK_FALSE(both.ranks[0].figures.has_worst);
  const Figures& wrong = both.ranks[1].figures;
  CHECK(wrong.mismatches == 8);
  CHECK(wrong.max_absolute == 7);
  CHECK(wrong.max_relative == 7);
  CHECK(wrong.rmse() == doctest::Approx(std::sqrt((8 * 49 + 0.0625) / (kRows * kColumns))));
  CHECK(place_text(both, wrong.worst) == "[7, 64] of rank 1");

  REQUIRE(both.rows.extent == 1);
  REQUIRE(both.rows.parts.size() == kRows);
  const Figures& row = both.rows.parts[7];  // of both ranks
  CHECK(row.elements == 2 * kColumns);
  CHECK(row.mismatches == 8);
  CHECK(row.rmse() == doctest::Approx(std::sqrt(8 * 49.0 / (2 * kColumns))));
  // Of 256 elements eight are 8: their sum is 312, their squares' 760.
  CHECK(row.cosine() == doctest::Approx(312 / std::sqrt(760.0 * 256)));
  CHECK(both.rows.parts[9].mismatches == 0);
  CHECK(both.rows.parts[9].max_absolute == 0.25);
  CHECK(worst_rows(both, 8) == std::vector<std::size_t>{7, 9});

  const std::string text = parts_text(both);
  CHECK(text.find("rank 0: 0 of 5120 mismatch, max abs 0,") != std::string::npos);
  CHECK(text.find("rank 1: 8 of 5120 mismatch, max abs 7,") != std::string::npos);
  CHECK(text.find("row 7: 8 of 256 mismatch, max abs 7,") != std::string::npos);
  CHECK(text.find("row 9:") == std::string::npos);

  const auto json = to_json(both);
  CHECK(json["ranks"][1]["rank"] == 1);
  CHECK(json["ranks"][1]["mismatches"] == 8);
  CHECK(json["rows"]["extent"] == 1);
  REQUIRE(json["rows"]["off"].size() == 2);
  CHECK(json["rows"]["off"][0]["first_row"] == 7);
  CHECK(json["rows"]["off"][0]["worst"]["place"] == "[7, 64] of rank 1");

  const std::string page = comparison_html("run", {both});
  for (const char* part :
       {"<td>rank 0</td><td>5120</td><td>0</td>",
        "<td>rank 1</td><td>5120</td><td class=\"bad\">8</td>",
        "<td>row 7</td><td>256</td><td class=\"bad\">8</td>",
        "<title>row 7: 8 of 256 mismatch, max abs 7</title>",
        // The axes of the map: its cells are three rows high and two columns wide.
        ">column 0</text>", "<text class=\"axis\" x=\"512\" y=\"12\">64</text>",
        "<title>worst: [7, 64] of rank 1</title>"}) {
    CHECK_MESSAGE(page.find(part) != std::string::npos, part);
  }
}

TEST_CASE("rows beyond 256 are told in parts, and parts merge to what the whole gives") {
  constexpr std::int64_t kMany = 1000;
  std::vector<std::uint16_t> actual(kMany * 4, 0x3f80);
  const std::vector<double> expected(actual.size(), 1.0), bound(actual.size(), 0.5);
  actual[999 * 4] = 0x4100;
  const auto compared = [&](std::size_t from, std::size_t count) {
    return compare("out", Dtype::bf16, {kMany, 4}, actual.data() + from, expected.data() + from,
                   bound.data() + from, count, from);
  };
  const Comparison whole = compared(0, actual.size());
  CHECK(whole.rows.extent == 4);
  REQUIRE(whole.rows.parts.size() == 250);
  CHECK(whole.rows.parts[249].mismatches == 1);
  CHECK(rows_text(whole, 249) == "rows 996 to 999");
  Comparison parts = compared(0, 1001);
  parts.merge(compared(1001, actual.size() - 1001));
  for (std::size_t i = 0; i < 250; ++i) {
    CHECK(parts.rows.parts[i].elements == 16);
    CHECK(parts.rows.parts[i].mismatches == whole.rows.parts[i].mismatches);
  }
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

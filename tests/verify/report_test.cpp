#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "verify/report.hpp"
#include "verify/report_json.hpp"

namespace ringfence::verify {
namespace {

Comparison good() {
  Comparison c;
  c.name = "out";
  c.shape = {2, 3072};
  c.elements = 6144;
  c.max_error_over_bound = 0.4123;
  c.max_ulp = 1.018;
  c.max_absolute = 0.015625;
  c.max_relative = 0.01;
  return c;
}

Comparison bad() {
  Comparison c = good();
  c.name = "residual_out";
  c.mismatches = 3;
  c.max_error_over_bound = 17;
  c.has_mismatch = true;
  c.first = {3089, 1.5, 1.25, 0.01, 0x3fc0, 0x3fa0};
  c.has_worst = true;
  c.worst = {3090, 3, 3.25, 0.01, 0x4040, 0x4050, 2};
  c.close_atol = 0.2;
  c.close_rtol = 0.08;
  return c;
}

TEST_CASE("the table has a header, a line for each tensor, and the first mismatches") {
  Comparison exact = good();
  exact.bit_exact = true;
  exact.max_ulp = 0;
  exact.max_error_over_bound = 0;
  CHECK(comparison_table({good(), bad(), exact}) ==
        "tensor                   dtype   elements mismatches error/bound   max abs   max rel"
        "      rmse    cosine\n"
        "out                       bf16       6144          0       0.412    0.0156      0.01"
        "         0         1  ok\n"
        "residual_out              bf16       6144          3      17.000    0.0156      0.01"
        "         0         1  MISMATCH\n"
        "out                       bf16       6144          0       exact    0.0156      0.01"
        "         0         1  ok\n"
        "residual_out: worst [1, 18] of rank 2: got 3.25, expected 3; allclose passes at atol 0.2 "
        "with rtol 0.016, at rtol 0.08 with atol 1e-05\n"
        "residual_out: first [1, 17]: got 1.25 (0x3fa0), expected 1.5 (0x3fc0), bound 0.01\n");
}

TEST_CASE("a wrong exponent does not break the table's columns") {
  Comparison c = bad();
  c.max_error_over_bound = 1.38e40;
  const std::string table = comparison_table({c});
  CHECK(table.find("          3    1.38e+40    0.0156") != std::string::npos);
}

TEST_CASE("units in the last place do not stand beside ok") {
  CHECK(comparison_table({good()}).find("ulp") == std::string::npos);
}

TEST_CASE("all_passed wants every comparison right, and at least one") {
  CHECK(all_passed({good(), good()}));
  CHECK_FALSE(all_passed({good(), bad()}));
  CHECK_FALSE(all_passed({}));
}

TEST_CASE("JSON has the five agreed keys first, and the first mismatch with its bits") {
  const auto array = to_json(std::vector<Comparison>{good(), bad()});
  REQUIRE(array.size() == 2);
  CHECK(
      array[0].dump() ==
      R"({"name":"out","elements":6144,"mismatches":0,"max_error_over_bound":0.4123,)"
      R"("max_ulp":1.018,"max_absolute":0.015625,"max_relative":0.01,"rmse":0.0,"cosine":1.0,)"
      R"("allclose":{"rtol":0.0,"with_atol":1e-05,"atol":0.0,"with_rtol":0.016},"worst":null,)"
      R"("dtype":"bf16","shape":[2,3072],"bit_exact":false,)"
      R"("histogram":{"upper":[0.0,0.015625,0.0625,0.25,0.5,1.0,4.0],"counts":[0,0,0,0,0,0,0,0]},"ranks":[],"rows":{"extent":0,"off":[]}})");
  CHECK(array[1]["worst"]["rank"] == 2);
  CHECK(array[1]["worst"]["place"] == "[1, 18] of rank 2");
  CHECK(array[1]["mismatches"] == 3);
  CHECK(array[1]["first_mismatch"]["index"] == 3089);
  CHECK(array[1]["first_mismatch"]["actual_bits"] == "0x3fa0");
}

TEST_CASE("numbers that JSON lacks are strings") {
  Comparison c = bad();
  c.max_error_over_bound = std::numeric_limits<double>::infinity();
  c.first.actual = std::numeric_limits<double>::quiet_NaN();
  c.first.expected = -std::numeric_limits<double>::infinity();
  const auto object = to_json(c);
  CHECK(object["max_error_over_bound"] == "inf");
  CHECK(object["first_mismatch"]["actual"] == "nan");
  CHECK(object["first_mismatch"]["expected"] == "-inf");
}

}  // namespace
}  // namespace ringfence::verify

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/verify/throws.hpp"
#include "verify/compare.hpp"

namespace ringfence::verify {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor row_of(Dtype dtype, const std::vector<double>& values) {
  Tensor tensor(dtype, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i)
    tensor.bits()[i] = round_double_to(dtype, values[i]);
  return tensor;
}

Comparison one(double actual, double expected, double bound, Dtype dtype = Dtype::bf16) {
  return compare("one", row_of(dtype, {actual}), {expected}, {bound});
}

TEST_CASE("an element passes within its bound and fails beyond it") {
  CHECK(one(1.5, 1.5, 0).passed());
  CHECK(one(1.5, 1.25, 0.25).passed());
  CHECK_FALSE(one(1.5, 1.25, 0.2499).passed());
  CHECK_FALSE(one(1.5, 1.25, 0).passed());
}

TEST_CASE("a comparison counts, and keeps the largest error and the first mismatch") {
  const Tensor actual = row_of(Dtype::bf16, {1, 2, 3.5, 4, 5.5});
  const Comparison c = compare("t", actual, {1, 2.25, 3, 4, 4.5}, {0.5, 0.5, 0.25, 0.5, 0.25});
  CHECK_FALSE(c.passed());
  CHECK(c.elements == 5);
  CHECK(c.mismatches == 2);
  CHECK(c.max_error_over_bound == 4);
  CHECK(c.max_ulp == 32);  // 1 at 4.5, whose bf16 neighbours are 2^-5 apart
  CHECK(c.first.index == 2);
  CHECK(c.first.actual == 3.5);
  CHECK(c.first.expected == 3);
  CHECK(c.first.actual_bits == 0x4060);
  CHECK(c.first.expected_bits == 0x4040);
  CHECK(mismatch_text(c) == "first [2]: got 3.5 (0x4060), expected 3 (0x4040), bound 0.25");
}

TEST_CASE("NaN and infinities match by class") {
  CHECK(one(kNaN, kNaN, 0).passed());
  CHECK(one(kInfinity, kInfinity, 0).passed());
  CHECK(one(-kInfinity, -kInfinity, 0).passed());
  struct Wrong {
    double actual, expected;
    std::uint64_t nan, infinity;
  };
  for (const Wrong& w :
       {Wrong{kNaN, 1, 1, 0}, Wrong{1, kNaN, 1, 0}, Wrong{kInfinity, kNaN, 1, 0},
        Wrong{kInfinity, -kInfinity, 0, 1}, Wrong{kInfinity, 1, 0, 1}, Wrong{1, kInfinity, 0, 1}}) {
    const Comparison c = one(w.actual, w.expected, 1e30);
    CHECK_FALSE(c.passed());
    CHECK(c.nan_mismatches == w.nan);
    CHECK(c.infinity_mismatches == w.infinity);
  }
}

TEST_CASE("an infinity is right where the bound reaches the overflow threshold") {
  CHECK(one(kInfinity, 65510, 10, Dtype::f16).passed());
  CHECK_FALSE(one(kInfinity, 65510, 9, Dtype::f16).passed());
  CHECK_FALSE(one(-kInfinity, 65510, 10, Dtype::f16).passed());
  CHECK(one(65504, 65530, 26, Dtype::f16).passed());
  CHECK(one(kInfinity, 1, kInfinity).passed());  // nothing can be said of it
}

TEST_CASE("a bit-exact comparison tells -0 from 0 and measures in representable numbers") {
  const Tensor expected = row_of(Dtype::bf16, {0, 1, -2});
  CHECK(compare_bits("t", expected, expected).passed());
  Tensor actual = expected;
  actual.bits()[0] = 0x8000;
  CHECK_FALSE(compare_bits("t", actual, expected).passed());
  actual = expected;
  actual.bits()[2] = static_cast<std::uint16_t>(actual.bits()[2] - 3);
  const Comparison c = compare_bits("t", actual, expected);
  CHECK(c.mismatches == 1);
  CHECK(c.max_ulp == 3);
  CHECK(c.first.index == 2);
  CHECK(c.max_error_over_bound == kInfinity);
  CHECK(mismatch_text(c) == "first [2]: got -1.9766 (0xbffd), expected -2 (0xc000), bit for bit");
}

TEST_CASE("units in the last place stop growing at the subnormals") {
  CHECK(one(0x1p-132, 0x1p-133, 0).max_ulp == 1);
  CHECK(one(0x1p-23, 0x1p-24, 0, Dtype::f16).max_ulp == 1);
  CHECK(one(1 + 0x1p-7, 1, 0.5).max_ulp == 1);
}

TEST_CASE("what may be 0 has no relative error and no units in the last place") {
  const Comparison c = compare("t", row_of(Dtype::bf16, {0x1p-20, 2}), {0, 2.25}, {0x1p-18, 0.5});
  CHECK(c.passed());
  CHECK(c.max_ulp == 16);
  CHECK(c.max_relative == doctest::Approx(0.25 / 2.25));
  CHECK(c.max_absolute == 0.25);
}

TEST_CASE("a comparison has the figures that an engineer reads") {
  const Comparison c = compare("t", row_of(Dtype::bf16, {3, 4, 0}), {3, 4.5, 0}, {1, 1, 1});
  CHECK(c.rmse() == doctest::Approx(std::sqrt(0.25 / 3)));
  CHECK(c.cosine() == doctest::Approx(27 / (5 * std::sqrt(29.25))));
  CHECK(c.has_worst);
  CHECK(c.worst.index == 1);
  CHECK(c.close_atol == doctest::Approx(0.5 - 0.016 * 4.5));
  CHECK(c.close_rtol == doctest::Approx((0.5 - 1e-5) / 4.5));
  const Comparison same = one(2, 2, 0);
  CHECK_FALSE(same.has_worst);
  CHECK(same.cosine() == 1);
  CHECK(same.rmse() == 0);
  // NaN is worse than any number, and no tolerance lets it pass.
  const Comparison nan = compare("t", row_of(Dtype::bf16, {9, kNaN}), {1, 1}, {9, 9});
  CHECK(nan.worst.index == 1);
  CHECK(nan.close_atol == kInfinity);
}

TEST_CASE("fp32 tensors are compared as well") {
  Tensor actual(Dtype::f32, {2, 2});
  actual.floats()[3] = 1.0f;
  const Comparison c = compare("t", actual, {0, 0, 0, 1.5}, {0, 0, 0, 0.1});
  CHECK(c.first.index == 3);
  CHECK(mismatch_text(c) ==
        "first [1, 1]: got 1 (0x3f800000), expected 1.5 (0x3fc00000), bound 0.1");
  CHECK(compare_bits("t", actual, actual).passed());
}

TEST_CASE("merging blocks is comparing the whole") {
  const Tensor actual = row_of(Dtype::bf16, {1, 2, 3, 4, 5, 6});
  const std::vector<double> expected = {1, 2, 3.5, 4, 5, 7};
  const std::vector<double> bound(6, 0.25);
  const Comparison whole = compare("t", actual, expected, bound);
  // The later block first: the first mismatch is still the lowest index.
  Comparison c = compare("t", Dtype::bf16, {6}, actual.bits() + 3, expected.data() + 3,
                         bound.data() + 3, 3, 3);
  CHECK(c.first.index == 5);
  c.merge(compare("t", Dtype::bf16, {6}, actual.bits(), expected.data(), bound.data(), 3, 0));
  CHECK(c.elements == whole.elements);
  CHECK(c.mismatches == whole.mismatches);
  CHECK(c.max_error_over_bound == whole.max_error_over_bound);
  CHECK(c.max_ulp == whole.max_ulp);
  CHECK(c.rmse() == doctest::Approx(whole.rmse()));
  CHECK(c.cosine() == doctest::Approx(whole.cosine()));
  CHECK(c.worst.index == whole.worst.index);
  CHECK(c.close_rtol == whole.close_rtol);
  CHECK(c.first.index == whole.first.index);
}

TEST_CASE("a comparison of nothing, or of different sizes, is an error and never a pass") {
  CHECK_FALSE(Comparison{}.passed());
  CHECK_ERROR(compare("t", Tensor(Dtype::bf16, {0}), {}, {}), "t", "nothing to compare");
  CHECK_ERROR(compare("t", Tensor(Dtype::bf16, {2}), {1}, {1}), "t", "2 elements against 1");
  CHECK_ERROR(compare_bits("t", Tensor(Dtype::bf16, {2}), Tensor(Dtype::bf16, {1, 2})), "[2]",
              "[1, 2]");
  CHECK_ERROR(compare_bits("t", Tensor(Dtype::bf16, {2}), Tensor(Dtype::f16, {2})), "bf16", "fp16");
}

}  // namespace
}  // namespace ringfence::verify

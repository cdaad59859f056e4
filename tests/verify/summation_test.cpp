#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/verify/throws.hpp"
#include "verify/random.hpp"
#include "verify/summation.hpp"

namespace ringfence::verify {
namespace {

// One element summed over the ranks' values.
float sum_of(Summation policy, Dtype dtype, const std::vector<double>& values,
             const std::vector<int>& order = {}) {
  std::vector<std::uint16_t> patterns;
  for (const double value : values) {
    patterns.push_back(round_double_to(dtype, value));
    REQUIRE(to_float(dtype, patterns.back()) == value);  // the case means what it says
  }
  std::vector<const std::uint16_t*> parts;
  for (const std::uint16_t& pattern : patterns) parts.push_back(&pattern);
  std::uint16_t sum = 0;
  reduce_vector(policy, dtype, parts.data(), static_cast<int>(parts.size()),
                order.empty() ? nullptr : order.data(), 1, &sum);
  return to_float(dtype, sum);
}

constexpr Summation kAll[] = {Summation::fp32_rank_order, Summation::fp32_given_order,
                              Summation::exact_once, Summation::each_step,
                              Summation::fp32_truncated};

TEST_CASE("each policy rounds where its name says") {
  // 256 + 1 + 1 in bf16, whose ulp is 2 there: each step loses the ones to ties to even.
  CHECK(sum_of(Summation::each_step, Dtype::bf16, {256, 1, 1}) == 256);
  CHECK(sum_of(Summation::fp32_rank_order, Dtype::bf16, {256, 1, 1}) == 258);
  CHECK(sum_of(Summation::exact_once, Dtype::bf16, {256, 1, 1}) == 258);
  // 256 + 1.5 = 257.5: to nearest 258, towards zero 256.
  CHECK(sum_of(Summation::fp32_rank_order, Dtype::bf16, {256, 1.5}) == 258);
  CHECK(sum_of(Summation::fp32_truncated, Dtype::bf16, {256, 1.5}) == 256);
  CHECK(sum_of(Summation::fp32_truncated, Dtype::bf16, {-256, -1.5}) == -256);
  // fp32 loses a 1 beside 2^24, by ties to even; the exact sum does not.
  CHECK(sum_of(Summation::fp32_rank_order, Dtype::bf16, {0x1p24, 1, -0x1p24}) == 0);
  CHECK(sum_of(Summation::exact_once, Dtype::bf16, {0x1p24, 1, -0x1p24}) == 1);
  CHECK(sum_of(Summation::fp32_given_order, Dtype::bf16, {0x1p24, 1, -0x1p24}, {0, 2, 1}) == 1);
  CHECK(sum_of(Summation::fp32_rank_order, Dtype::bf16, {0x1p24, 1, -0x1p24}, {0, 2, 1}) == 0);
  // fp16 truncates to its largest number, not to infinity.
  CHECK(sum_of(Summation::fp32_truncated, Dtype::f16, {65504, 65504}) == 65504);
  CHECK(std::isinf(sum_of(Summation::fp32_rank_order, Dtype::f16, {65504, 65504})));
  CHECK(std::isinf(sum_of(Summation::each_step, Dtype::f16, {65504, 65504, -65504})));
  CHECK(sum_of(Summation::exact_once, Dtype::f16, {65504, 65504, -65504}) == 65504);
}

TEST_CASE("the exact policy sees what no double can hold") {
  // 257 lies between 256 and 258, whose last places are even and odd; 2^-100 decides.
  const double tiny = 0x1p-100;
  CHECK(sum_of(Summation::exact_once, Dtype::bf16, {256, 1}) == 256);
  CHECK(sum_of(Summation::exact_once, Dtype::bf16, {256, 1, tiny}) == 258);
  CHECK(sum_of(Summation::exact_once, Dtype::bf16, {256, tiny, 1}) == 258);
  CHECK(sum_of(Summation::exact_once, Dtype::bf16, {256, 1, -tiny}) == 256);
  // 259 lies between 258 and 260.
  CHECK(sum_of(Summation::exact_once, Dtype::bf16, {258, 1}) == 260);
  CHECK(sum_of(Summation::exact_once, Dtype::bf16, {258, 1, -tiny}) == 258);
  CHECK(sum_of(Summation::exact_once, Dtype::bf16, {-258, -1, tiny}) == -258);
  CHECK(sum_of(Summation::exact_once, Dtype::bf16, {0x1p120, 3, tiny, -0x1p120, -3}) == 0x1p-100f);
  CHECK(sum_of(Summation::exact_once, Dtype::bf16, {0x1p120, tiny, tiny, -0x1p120}) == 0x1p-99f);
}

TEST_CASE("the exact policy gives the same bits in every order of the ranks") {
  const CounterRandom random(11, 0, 0);
  int different = 0;
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    std::uint16_t patterns[5];
    for (std::uint64_t r = 0; r < 5; ++r) {
      // Any finite bf16 numbers, some of them cancelling.
      const std::uint64_t bits = random.bits(trial * 5 + r);
      patterns[r] = static_cast<std::uint16_t>(bits & 0xbfffu);
      if (r == 4 && trial % 2 == 0) patterns[r] = static_cast<std::uint16_t>(patterns[0] ^ 0x8000u);
    }
    std::vector<int> order = {0, 1, 2, 3, 4};
    std::uint16_t first = 0;
    bool have_first = false;
    do {
      const std::uint16_t* parts[5];
      for (int r = 0; r < 5; ++r) parts[r] = &patterns[order[static_cast<std::size_t>(r)]];
      std::uint16_t sum = 0;
      reduce_vector(Summation::exact_once, Dtype::bf16, parts, 5, nullptr, 1, &sum);
      if (!have_first) first = sum;
      have_first = true;
      different += sum != first && to_float(Dtype::bf16, sum) != to_float(Dtype::bf16, first);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  CHECK(different == 0);
}

TEST_CASE("integers whose magnitudes sum to 256 give one result under every policy and order") {
  const CounterRandom random(12, 0, 0);
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (std::uint64_t trial = 0; trial < 200; ++trial) {
      std::vector<double> values;
      double sum = 0;
      for (std::uint64_t r = 0; r < 8; ++r) {
        values.push_back(static_cast<double>(random.bits(trial * 8 + r) % 65) - 32);
        sum += values.back();
      }
      std::vector<int> order(8);
      std::iota(order.begin(), order.end(), 0);
      std::rotate(order.begin(), order.begin() + static_cast<long>(trial % 8), order.end());
      if (trial % 3 == 0) std::reverse(order.begin(), order.end());
      for (const Summation policy : kAll) CHECK(sum_of(policy, dtype, values, order) == sum);
    }
  }
}

TEST_CASE("an infinity and a NaN among the partials come through every policy") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Summation policy : kAll) {
    CAPTURE(summation_name(policy));
    CHECK(sum_of(policy, Dtype::bf16, {1, infinity, 2}) == infinity);
    CHECK(std::isnan(sum_of(policy, Dtype::bf16, {infinity, 1, -infinity})));
  }
}

TEST_CASE("the sum may overwrite one of its parts") {
  std::uint16_t a[8], b[8];
  for (int i = 0; i < 8; ++i) {
    a[i] = round_to(Dtype::bf16, static_cast<float>(i));
    b[i] = round_to(Dtype::bf16, 10.0f);
  }
  const std::uint16_t* parts[] = {a, b};
  reduce_vector(Summation::fp32_rank_order, Dtype::bf16, parts, 2, nullptr, 8, a);
  for (int i = 0; i < 8; ++i) CHECK(to_float(Dtype::bf16, a[i]) == static_cast<float>(10 + i));
}

TEST_CASE("an atomic add rounds to the dtype every time") {
  std::uint16_t tile = 0;
  const std::uint16_t large = round_to(Dtype::bf16, 256.0f);
  const std::uint16_t one = round_to(Dtype::bf16, 1.0f);
  atomic_add(Dtype::bf16, &large, 1, &tile);
  atomic_add(Dtype::bf16, &one, 1, &tile);
  atomic_add(Dtype::bf16, &one, 1, &tile);
  CHECK(to_float(Dtype::bf16, tile) == 256.0f);
}

TEST_CASE("summation names are what parse_summation takes, and anything else is refused") {
  for (const Summation policy : kAll) CHECK(parse_summation(summation_name(policy)) == policy);
  CHECK_ERROR(parse_summation("fp64"), "fp64", "rank-order");
}

}  // namespace
}  // namespace ringfence::verify

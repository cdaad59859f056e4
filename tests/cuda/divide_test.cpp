#include "cuda/kernels/divide.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

using ringfence::cuda::divide_by_normal;
using ringfence::cuda::divide_by_whole;
using ringfence::cuda::divides_normally;

namespace {

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

TEST_CASE("divide_by_whole equals the division operator, bit for bit") {
  std::mt19937_64 random(1);
  for (int divisor : {1, 2, 3, 7, 64, 288, 1003, 4096, 5120, 7168, 8192, 12288, 16383, 16384}) {
    const float d = static_cast<float>(divisor);
    int64_t wrong = 0;
    for (int i = 0; i < 200000; ++i) {
      const uint32_t exponent = 28 + static_cast<uint32_t>(random() % 226);  // 2^-99 .. FLT_MAX
      const uint32_t bits = exponent << 23 | (static_cast<uint32_t>(random()) & 0x7fffffu);
      float value;
      std::memcpy(&value, &bits, sizeof value);
      wrong += !same_bits(divide_by_whole(value, d, 1.0f / d), value / d);
    }
    CAPTURE(divisor);
    CHECK(wrong == 0);
  }
}

TEST_CASE("divide_by_whole keeps zero, infinity and NaN") {
  const float reciprocal = 1.0f / 5120.0f;
  CHECK(divide_by_whole(0.0f, 5120.0f, reciprocal) == 0.0f);
  CHECK(divide_by_whole(std::numeric_limits<float>::infinity(), 5120.0f, reciprocal) ==
        std::numeric_limits<float>::infinity());
  const float nan = divide_by_whole(std::numeric_limits<float>::quiet_NaN(), 5120.0f, reciprocal);
  CHECK(nan != nan);
}

TEST_CASE("divide_by_normal equals the division operator wherever it says that it may be used") {
  std::mt19937_64 random(2);
  const auto number = [&](int least_exponent, int exponents) {  // of either sign
    const uint32_t exponent = static_cast<uint32_t>(127 + least_exponent) +
                              static_cast<uint32_t>(random() % static_cast<uint64_t>(exponents));
    // A quarter of the significands are at an end, where rounding is decided last.
    const uint32_t any = static_cast<uint32_t>(random()) & 0x7fffffu;
    const uint32_t significand = random() % 4 != 0 ? any
                                 : any % 4 < 2     ? any % 4
                                                   : 0x7fffffu - any % 2;
    const uint32_t bits = static_cast<uint32_t>(random() % 2) << 31 | exponent << 23 | significand;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  };
  int64_t wrong = 0, used = 0;
  for (int i = 0; i < 4000000; ++i) {
    const float divisor = std::abs(number(-60, 81));
    const float value = number(-100, 188);
    if (!divides_normally(std::abs(value), divisor) || std::abs(value) > 128.0f * divisor) continue;
    ++used;
    wrong += !same_bits(divide_by_normal(value, divisor, 1.0f / divisor), value / divisor);
  }
  CHECK(used > 1000000);
  CHECK(wrong == 0);
}

TEST_CASE("divide_by_normal is not used where it would be wrong") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(!divides_normally(0.0f, 1.0f));  // a negative zero would become a positive one
  CHECK(!same_bits(divide_by_normal(-0.0f, 3.0f, 1.0f / 3.0f), -0.0f / 3.0f));
  CHECK(!divides_normally(1.0f, 0.0f));
  CHECK(!divides_normally(1.0f, inf));
  CHECK(!divides_normally(1.0f, nan));
  CHECK(!divides_normally(0x1p-101f, 1.0f));
  // Below, the remainder loses bits.
  int64_t wrong = 0;
  for (int i = 0; i < 2000; ++i) {
    const float value = std::ldexp(1.0f + static_cast<float>(i) * 0x1p-11f, -125);
    wrong += !same_bits(divide_by_normal(value, 0.7f, 1.0f / 0.7f), value / 0.7f);
  }
  CHECK(wrong > 0);
}

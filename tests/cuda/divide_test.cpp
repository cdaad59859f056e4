#include "cuda/kernels/divide.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

using ringfence::cuda::divide_by_whole;

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

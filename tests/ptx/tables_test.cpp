// The tables of approximate functions against what the GPU computed, over every argument: the
// checksum of the differences is the one of the recorded file (alu/tables/README.md).

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "emulator/ptx/alu/approx.hpp"
#include "tests/ptx/cksum.hpp"

namespace ringfence::ptx::test {
namespace {

std::uint32_t checksum_of_differences(std::uint32_t arguments, float (*function)(float),
                                      double (*exact)(double)) {
  Cksum sum;
  for (std::uint32_t i = 0; i < arguments; ++i) {
    const float x = std::bit_cast<float>(0x3F800000U + i);
    const auto rounded = std::bit_cast<std::int32_t>(static_cast<float>(exact(x)));
    const std::int32_t difference = std::bit_cast<std::int32_t>(function(x)) - rounded;
    sum.add(static_cast<std::uint8_t>(difference));
  }
  return sum.value();
}

}  // namespace

TEST_CASE("tables: every argument gives what the H200 gave") {
  CHECK(checksum_of_differences(1U << 24, rsqrt_approx,
                                [](double x) { return 1 / std::sqrt(x); }) == 3873575410U);
  CHECK(checksum_of_differences(1U << 24, sqrt_approx, [](double x) { return std::sqrt(x); }) ==
        3828241947U);
  CHECK(checksum_of_differences(1U << 23, rcp_approx, [](double x) { return 1 / x; }) ==
        3468805139U);
  CHECK(checksum_of_differences(1U << 23, ex2_approx, [](double x) { return std::exp2(x); }) ==
        1175814884U);
}

TEST_CASE("tables: rsqrt repeats with every factor 4 and scales subnormals") {
  for (std::uint32_t i = 0; i < (1U << 24); i += 4099) {
    const float x = std::bit_cast<float>(0x3F800000U + i);
    for (const int k : {-60, -2, 1, 40}) {
      REQUIRE(rsqrt_approx(std::ldexp(x, 2 * k)) == std::ldexp(rsqrt_approx(x), -k));
    }
    const float tiny = std::ldexp(x, -140);  // loses bits, as the subnormal itself does
    REQUIRE(rsqrt_approx(tiny) == std::ldexp(rsqrt_approx(std::ldexp(tiny, 24)), 12));
  }
}

TEST_CASE("tables: special arguments give what the manual says") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(rsqrt_approx(0.0F) == kInfinity);
  CHECK(rsqrt_approx(-0.0F) == -kInfinity);
  CHECK(std::isnan(rsqrt_approx(-1.0F)));
  CHECK(std::bit_cast<std::uint32_t>(rsqrt_approx(kInfinity)) == 0);
  CHECK(std::isnan(rsqrt_approx(std::numeric_limits<float>::quiet_NaN())));
  CHECK(rcp_approx(-0.0F) == -kInfinity);
  CHECK(rcp_approx(-kInfinity) == 0);
  CHECK(rcp_approx(4.0F) == 0.25F);
  CHECK(std::isnan(sqrt_approx(-1.0F)));
  CHECK(ex2_approx(-kInfinity) == 0);
  CHECK(ex2_approx(3.0F) == 8.0F);
}

}  // namespace ringfence::ptx::test

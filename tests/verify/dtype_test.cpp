#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cmath>
#include <vector>

#include "tests/verify/throws.hpp"
#include "verify/dtype.hpp"
#include "verify/random.hpp"

namespace ringfence::verify {
namespace {

std::uint16_t eigen_bf16(float value) {
  return Eigen::numext::bit_cast<std::uint16_t>(static_cast<Eigen::bfloat16>(value));
}
std::uint16_t eigen_f16(float value) { return Eigen::half(value).x; }

float eigen_from_bf16(std::uint16_t bits) {
  return static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(bits));
}
float eigen_from_f16(std::uint16_t bits) {
  return static_cast<float>(Eigen::half(Eigen::half_impl::raw_uint16_to_half(bits)));
}

// How many of the two conversions to 16 bits differ from Eigen's for this float.
int differences(std::uint32_t bits) {
  const float value = float_from_bits(bits);
  return (float_to_bf16(value) != eigen_bf16(value)) + (float_to_f16(value) != eigen_f16(value));
}

TEST_CASE("16-bit patterns widen to the bits that Eigen gives, all of them") {
  int different = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    different += float_bits(bf16_to_float(pattern)) != float_bits(eigen_from_bf16(pattern));
    different += float_bits(f16_to_float(pattern)) != float_bits(eigen_from_f16(pattern));
  }
  CHECK(different == 0);
}

TEST_CASE("floats round to the bits that Eigen gives: every 251st pattern of 2^32") {
  int different = 0;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 251) {
    different += differences(static_cast<std::uint32_t>(bits));
  }
  CHECK(different == 0);
}

TEST_CASE("floats round to the bits that Eigen gives: at and beside every tie") {
  int different = 0;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (std::uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      different += differences(upper << 16 | lower);
    }
    // The midpoint between this fp16 number and the next, and its neighbours.
    const auto pattern = static_cast<std::uint16_t>(upper);
    if ((pattern & 0x7fff) >= 0x7bff) continue;
    const float middle = (f16_to_float(pattern) + f16_to_float(pattern + 1)) / 2;
    for (std::uint32_t step : {0xffffffffu, 0u, 1u})
      different += differences(float_bits(middle) + step);
  }
  CHECK(different == 0);
}

TEST_CASE("the bulk conversions give the same bits as the scalar ones") {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    std::vector<std::uint16_t> patterns(0x10000);
    for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
    std::vector<float> floats(patterns.size());
    std::vector<double> doubles(patterns.size());
    to_float(dtype, patterns.data(), floats.data(), patterns.size());
    to_double(dtype, patterns.data(), doubles.data(), patterns.size());
    std::vector<float> between(patterns.size());
    const CounterRandom random(1, 2, 3);
    int different = 0;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const float scalar = to_float(dtype, patterns[i]);
      different += float_bits(floats[i]) != float_bits(scalar);
      different += !std::isnan(scalar) && doubles[i] != static_cast<double>(scalar);
      between[i] = float_from_bits(static_cast<std::uint32_t>(random.bits(i)));
    }
    std::vector<std::uint16_t> back(patterns.size());
    round_to(dtype, between.data(), back.data(), back.size());
    for (std::size_t i = 0; i < back.size(); ++i)
      different += back[i] != round_to(dtype, between[i]);
    CHECK(different == 0);
  }
}

TEST_CASE("truncation gives the largest magnitude that does not exceed the value") {
  const CounterRandom random(5, 0, 0);
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    int wrong = 0;
    for (std::uint64_t i = 0; i < 2'000'000; ++i) {
      float value = float_from_bits(static_cast<std::uint32_t>(random.bits(i)));
      if (dtype == Dtype::f16 && i % 2 == 0)
        value = std::ldexp(random.normal(i), static_cast<int>(i % 40) - 26);
      if (!std::isfinite(value)) continue;
      const std::uint16_t truncated = truncate_to(dtype, value);
      const float magnitude = std::abs(to_float(dtype, truncated));
      const float next = std::abs(to_float(dtype, static_cast<std::uint16_t>(truncated + 1)));
      wrong += !(magnitude <= std::abs(value) && next > std::abs(value)) ||
               ((truncated & 0x8000) != 0) != std::signbit(value);
    }
    CHECK(wrong == 0);
    CHECK(std::isnan(to_float(dtype, truncate_to(dtype, std::nanf("1")))));
    const float infinity = std::numeric_limits<float>::infinity();
    CHECK(to_float(dtype, truncate_to(dtype, -infinity)) == -infinity);
  }
  CHECK(to_float(Dtype::f16, truncate_to(Dtype::f16, 1e6f)) == 65504.0f);
}

TEST_CASE("a double rounds once: beside a tie by less than fp32 can tell") {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    const std::uint32_t last = dtype == Dtype::bf16 ? 0x7f7f : 0x7bff;
    int wrong = 0;
    for (std::uint32_t pattern = 0; pattern < last; ++pattern) {
      const double low = to_float(dtype, static_cast<std::uint16_t>(pattern));
      const double high = to_float(dtype, static_cast<std::uint16_t>(pattern + 1));
      const double middle = (low + high) / 2;
      const double below = std::nextafter(middle, 0.0);
      const double above = std::nextafter(middle, 1e300);
      const std::uint32_t even = pattern % 2 == 0 ? pattern : pattern + 1;
      wrong += round_double_to(dtype, below) != pattern;
      wrong += round_double_to(dtype, middle) != even;
      wrong += round_double_to(dtype, above) != pattern + 1;
      wrong += round_double_to(dtype, -above) != (0x8000u | (pattern + 1));
    }
    CHECK(wrong == 0);
    const std::uint16_t infinity = dtype == Dtype::bf16 ? 0x7f80 : 0x7c00;
    CHECK(round_double_to(dtype, 1e300) == infinity);
    CHECK(round_double_to(dtype, overflow_threshold(dtype)) == infinity);
    CHECK(round_double_to(dtype, std::nextafter(overflow_threshold(dtype), 0.0)) == last);
    CHECK(round_double_to(dtype, 1e-300) == 0);
    CHECK(round_double_to(dtype, -1e-300) == 0x8000);
    CHECK(std::isnan(to_float(dtype, round_double_to(dtype, std::nan("")))));
  }
}

TEST_CASE("the constants of a dtype agree with its patterns") {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    const std::uint16_t one = round_to(dtype, 1.0f);
    const double ulp = to_float(dtype, static_cast<std::uint16_t>(one + 1)) - 1.0;
    CHECK(unit_roundoff(dtype) == ulp / 2);
    CHECK(std::ldexp(1.0, 1 - significand_bits(dtype)) == ulp);
    CHECK(subnormal_floor(dtype) == to_float(dtype, 1) / 2.0);
    const std::uint16_t infinity = round_to(dtype, std::numeric_limits<float>::infinity());
    CHECK(largest_finite(dtype) == to_float(dtype, static_cast<std::uint16_t>(infinity - 1)));
    const auto smallest_normal = static_cast<std::uint16_t>(dtype == Dtype::bf16 ? 0x80 : 0x400);
    CHECK(std::ldexp(1.0, minimum_exponent(dtype)) == to_float(dtype, smallest_normal));
  }
}

TEST_CASE("dtype names are what parse_dtype takes, and anything else is refused") {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    CHECK(parse_dtype(dtype_name(dtype)) == dtype);
  }
  CHECK_ERROR(parse_dtype("fp8"), "fp8", "bf16, fp16, fp32, fp64, e4m3");
}

}  // namespace
}  // namespace ringfence::verify

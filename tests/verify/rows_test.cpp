#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "verify/random.hpp"
#include "verify/rows.hpp"

namespace ringfence::verify {
namespace {

__extension__ typedef unsigned __int128 Wide;

using Patterns = std::vector<std::uint16_t>;

Patterns random_row(Dtype dtype, std::int64_t hidden, std::uint64_t stream, float scale = 1) {
  const CounterRandom random(21, 0, stream);
  Patterns row;
  for (std::int64_t i = 0; i < hidden; ++i) {
    row.push_back(round_to(dtype, scale * random.normal(static_cast<std::uint64_t>(i))));
  }
  return row;
}

// The block's reduction as its threads do it: every lane of every warp has a register, and each
// shuffle exchanges all 32.
float by_all_lanes(Dtype dtype, const Patterns& z, int threads) {
  const auto butterfly = [](std::vector<float> lanes) {
    for (int mask = 16; mask > 0; mask /= 2) {
      std::vector<float> other = lanes;
      for (int lane = 0; lane < 32; ++lane) lanes[lane] = other[lane] + other[lane ^ mask];
    }
    return lanes;
  };
  std::vector<float> shared(32, 0.0f);
  for (int warp = 0; warp < threads / 32; ++warp) {
    std::vector<float> lanes(32, 0.0f);
    for (int lane = 0; lane < 32; ++lane) {
      const int thread = warp * 32 + lane;
      for (std::size_t vector = thread; vector < z.size() / 8; vector += threads) {
        float sum = 0;
        for (std::size_t i = vector * 8; i < vector * 8 + 8; i += 2) {
          const float x = to_float(dtype, z[i]), y = to_float(dtype, z[i + 1]);
          const float square = y * y;
          sum = sum + std::fma(x, x, square);
        }
        lanes[lane] = lanes[lane] + sum;
      }
    }
    shared[warp] = butterfly(lanes)[0];
  }
  return butterfly(shared)[0];
}

TEST_CASE("the sum of squares follows threads, warps and shuffles, whatever H is") {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const std::int64_t hidden : {8, 64, 264, 4096, 5120, 7168, 8192, 8200, 16384, 20480}) {
      CAPTURE(hidden);
      const Patterns z = random_row(dtype, hidden, 1, 3);
      const int threads = tokenweave_block_threads(hidden);
      CHECK(block_sum_squares(dtype, z.data(), hidden, threads) == by_all_lanes(dtype, z, threads));
    }
  }
}

TEST_CASE("the order of summation matters: another block size gives other bits") {
  int different = 0;
  for (std::uint64_t stream = 0; stream < 20; ++stream) {
    const Patterns z = random_row(Dtype::bf16, 8192, stream, 3);
    different += block_sum_squares(Dtype::bf16, z.data(), 8192, 1024) !=
                 block_sum_squares(Dtype::bf16, z.data(), 8192, 256);
  }
  CHECK(different > 0);
}

TEST_CASE("a pair is fl(y·y) and then one fused multiply-add of x, in that order") {
  // Below fp32's normal numbers squares round to multiples of q = 2^-149, so that the three ways to
  // contract differ. a² = 0.5 q; b² = 1.125 q.
  const float q = 0x1p-149f;
  Patterns vector(8, 0);
  const std::uint16_t a = round_to(Dtype::bf16, 0x1p-75f);
  const std::uint16_t b = round_to(Dtype::bf16, 0x1.8p-75f);
  vector[0] = a;
  vector[1] = b;
  // fl(b²) = q, and 1.5 q ties to even: 2 q. Without contraction 0 + q; the other way 0 + 1.125 q.
  CHECK(vector_sum_squares(Dtype::bf16, vector.data()) == 2 * q);
  vector[0] = b;
  vector[1] = a;
  // fl(a²) = 0 by ties to even, and 1.125 q rounds to q. The other way q + 0.5 q would give 2 q.
  CHECK(vector_sum_squares(Dtype::bf16, vector.data()) == q);
}

TEST_CASE("rsqrt_rounded is correctly rounded from 1 to 4, and so for every normal number") {
  // r, in (1/2, 1], is n·2^-25 with n even, and half its last place is 2^-25; x is m·2^-23. So r is
  // nearest to 1/sqrt(x) where (n-1)²·m < 2^73 < (n+1)²·m: an inequality of integers.
  int wrong = 0;
  for (std::uint32_t bits = 0x3f800000u; bits < 0x40800000u; ++bits) {
    const float x = float_from_bits(bits);
    const float r = rsqrt_rounded(x, nullptr);
    const auto m = static_cast<Wide>(static_cast<std::uint64_t>(x * 0x1p23f));
    const auto n = static_cast<Wide>(static_cast<std::uint64_t>(r * 0x1p25f));
    const Wide one = static_cast<Wide>(1) << 73;
    wrong += n % 2 != 0 || !((n - 1) * (n - 1) * m < one && one < (n + 1) * (n + 1) * m);
  }
  CHECK(wrong == 0);
}

TEST_CASE("rsqrt_rounded has the special values of the instruction") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(rsqrt_rounded(0.0f, nullptr) == infinity);
  CHECK(rsqrt_rounded(-0.0f, nullptr) == -infinity);
  CHECK(rsqrt_rounded(infinity, nullptr) == 0.0f);
  CHECK(std::isnan(rsqrt_rounded(-1.0f, nullptr)));
}

// A row whose squares have the mean 256, so that 1/sqrt is 1/16.
Patterns exact_row(Dtype dtype, std::int64_t hidden) {
  const float tuple[] = {30, -26, 18, 10, -6, 2, 2, -2};
  Patterns row;
  for (std::int64_t i = 0; i < hidden; ++i) row.push_back(round_to(dtype, tuple[i * 5 % 8]));
  return row;
}

TEST_CASE("a tokenweave row with mean 256 comes out as z/16·gamma + beta, bit for bit") {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const std::int64_t hidden : {64, 5120, 7168, 8192, 16384}) {
      const Patterns z = exact_row(dtype, hidden);
      const auto count = static_cast<std::size_t>(hidden);
      Patterns v(count), residual(count), gamma(count), beta(count), out(count),
          residual_out(count);
      Patterns expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        const float part = static_cast<float>(i % 11);
        v[i] = round_to(dtype, part);
        residual[i] = round_to(dtype, to_float(dtype, z[i]) - part);
        const float g = static_cast<float>(i % 3 + 1), b = static_cast<float>(i % 2);
        gamma[i] = round_to(dtype, g);
        beta[i] = round_to(dtype, b);
        expected[i] = round_to(dtype, to_float(dtype, z[i]) / 16 * g + b);
      }
      Norm norm{dtype, hidden, 1e-5f, gamma.data(), beta.data(), {}};
      tokenweave_row(norm, v.data(), residual.data(), out.data(), residual_out.data());
      CHECK(out == expected);
      CHECK(residual_out == z);
      // In place, as the protocol does it: out over v, residual_out over residual.
      tokenweave_row(norm, v.data(), residual.data(), v.data(), residual.data());
      CHECK(v == expected);
      CHECK(residual == z);
    }
  }
}

TEST_CASE("tokenweave's out rounds twice, once for the scale and once for gamma") {
  const std::uint16_t z = round_to(Dtype::bf16, 1.0078125f);
  const std::uint16_t gamma = round_to(Dtype::bf16, 1.5078125f);
  Norm norm{Dtype::bf16, 8, 0, &gamma, nullptr, {}};
  std::uint16_t out = 0;
  const float s = 0x1.fep-1f;  // 0.99609375
  tokenweave_scale_elements(norm, s, &z, 0, 1, &out);
  // z·s = 1.0038757 rounds to 1, below the tie at 1.00390625; then ·gamma is exact. One rounding of
  // the whole product, 1.5136564, would give the next number, 1.515625.
  CHECK(to_float(Dtype::bf16, out) == 1.5078125f);
  CHECK(bf16_to_float(float_to_bf16(1.0078125f * s * 1.5078125f)) == 1.515625f);
}

TEST_CASE("the scale divides by H, adds eps and then takes the given rsqrt") {
  struct Seen {
    mutable float argument = 0;
  } seen;
  Rsqrt spy;
  spy.context = &seen;
  spy.function = [](float x, const void* context) {
    static_cast<const Seen*>(context)->argument = x;
    return 42.0f;
  };
  CHECK(tokenweave_scale(10.0f, 24, 0.25f, spy) == 42.0f);
  CHECK(seen.argument == 10.0f / 24.0f + 0.25f);
}

TEST_CASE("pypto rounds each product to fp32 before the sum, and nothing is fused") {
  for (const std::int64_t hidden : {24, 64, 5120}) {
    const auto count = static_cast<std::size_t>(hidden);
    const Patterns sum = random_row(Dtype::bf16, hidden, 1);
    const Patterns residual = random_row(Dtype::bf16, hidden, 2);
    const Patterns gamma = random_row(Dtype::bf16, hidden, 3);
    const Patterns beta = random_row(Dtype::bf16, hidden, 4);
    Patterns out(count), residual_out(count);
    Norm norm{Dtype::bf16, hidden, 1e-5f, gamma.data(), beta.data(), {}};
    pypto_row(norm, sum.data(), residual.data(), out.data(), residual_out.data());
    // Each operation of two floats in double is exact or (division, root) rounds harmlessly before
    // the rounding to float: no contraction can hide here.
    const auto value = [](const Patterns& row, std::size_t i) {
      return static_cast<double>(to_float(Dtype::bf16, row[i]));
    };
    const double inverse = static_cast<float>(1.0 / static_cast<double>(hidden));
    double mean = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double z = static_cast<float>(value(sum, i) + value(residual, i));
      const double square = static_cast<float>(z * z);
      const double part = static_cast<float>(square * inverse);
      mean = static_cast<float>(mean + part);
    }
    const double shifted = static_cast<float>(mean + static_cast<double>(norm.eps));
    const double root = static_cast<float>(std::sqrt(shifted));
    int wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double z = static_cast<float>(value(sum, i) + value(residual, i));
      const double normed = static_cast<float>(z / root);
      const double scaled = static_cast<float>(normed * value(gamma, i));
      const double shifted_out = static_cast<float>(scaled + value(beta, i));
      wrong += out[i] != float_to_bf16(static_cast<float>(shifted_out));
      wrong += residual_out[i] != float_to_bf16(static_cast<float>(z));
    }
    CHECK(wrong == 0);
    Patterns in_place = sum;
    pypto_row(norm, in_place.data(), residual.data(), in_place.data(), nullptr);
    CHECK(in_place == out);
  }
}

TEST_CASE("a pypto row with mean 256 and H a power of two comes out as z/16·gamma, bit for bit") {
  for (const std::int64_t hidden : {64, 4096, 8192}) {
    const auto count = static_cast<std::size_t>(hidden);
    const Patterns z = exact_row(Dtype::bf16, hidden);
    const Patterns zero(count, 0);
    Patterns gamma(count, round_to(Dtype::bf16, 3.0f)), out(count), residual_out(count),
        expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      expected[i] = float_to_bf16(to_float(Dtype::bf16, z[i]) / 16 * 3);
    }
    Norm norm{Dtype::bf16, hidden, 1e-5f, gamma.data(), nullptr, {}};
    pypto_row(norm, zero.data(), z.data(), out.data(), residual_out.data());
    CHECK(out == expected);
    CHECK(residual_out == z);
  }
}

// Values with more places than bf16 and fp16 have.
std::vector<float> wide_row(std::int64_t hidden, std::uint64_t stream) {
  std::vector<float> row;
  const CounterRandom random(7, stream, 0);
  for (std::int64_t i = 0; i < hidden; ++i) {
    row.push_back(random.normal(static_cast<std::uint64_t>(i)));
  }
  return row;
}

std::vector<std::uint32_t> words(const std::vector<float>& row) {
  std::vector<std::uint32_t> bits;
  for (const float x : row) bits.push_back(float_bits(x));
  return bits;
}

TEST_CASE("in fp32 nothing is rounded to a dtype, in either flavour's row") {
  constexpr std::int64_t kHidden = 64;
  const std::vector<float> v = wide_row(kHidden, 1), residual = wide_row(kHidden, 2),
                           gamma = wide_row(kHidden, 3), beta = wide_row(kHidden, 4);
  std::vector<std::uint32_t> out(kHidden), residual_out(kHidden);
  Norm norm;
  norm.dtype = Dtype::f32;
  norm.hidden = kHidden;
  norm.eps = 1e-5f;
  norm.gamma_fp32 = gamma.data();
  norm.width = 4;
  // Thread t of 32 has vector t, of four: pairs (x, y) as fl(x·x + fl(y·y)).
  float lanes[32] = {};
  std::vector<float> z;
  for (std::size_t i = 0; i < kHidden; ++i) z.push_back(v[i] + residual[i]);
  for (std::size_t t = 0; t < 16; ++t) {
    const float* q = z.data() + 4 * t;
    lanes[t] = std::fma(q[0], q[0], q[1] * q[1]) + std::fma(q[2], q[2], q[3] * q[3]);
  }
  for (const int mask : {16, 8, 4, 2, 1}) {
    for (int i = 0; i < mask; ++i) lanes[i] = lanes[i] + lanes[i + mask];
  }
  const float s = rsqrt_rounded(lanes[0] / 64.0f + 1e-5f, nullptr);
  tokenweave_row(norm, words(v).data(), words(residual).data(), out.data(), residual_out.data());
  CHECK(residual_out == words(z));
  for (std::size_t i = 0; i < kHidden; ++i) CHECK(float_from_bits(out[i]) == z[i] * s * gamma[i]);

  norm.beta_fp32 = beta.data();
  pypto_row(norm, words(v).data(), words(residual).data(), out.data(), residual_out.data());
  float mean = 0;
  for (const float x : z) {
    const float square = x * x;
    const float part = square * (1.0f / 64.0f);
    mean += part;
  }
  const float root = std::sqrt(mean + 1e-5f);
  CHECK(residual_out == words(z));
  for (std::size_t i = 0; i < kHidden; ++i) {
    const float normed = z[i] / root;
    const float scaled = normed * gamma[i];
    CHECK(float_from_bits(out[i]) == scaled + beta[i]);
  }
}

TEST_CASE("an fp32 gamma beside bf16 data is not rounded; its product is") {
  const std::uint16_t z = round_to(Dtype::bf16, 1.0f);
  // Between 1.0 and 1.0078125, the next number of bf16; times 1.5 past the tie of two others.
  const float gamma = 1.003f;
  Norm norm;
  norm.hidden = 8;
  norm.gamma_fp32 = &gamma;
  std::uint16_t out = 0;
  tokenweave_scale_elements(norm, 1.5f, &z, 0, 1, &out);
  CHECK(to_float(Dtype::bf16, out) == 1.5078125f);  // 1.5045 is nearer to it than to 1.5
  const std::uint16_t rounded = round_to(Dtype::bf16, gamma);
  norm.gamma_fp32 = nullptr;
  norm.gamma = &rounded;
  tokenweave_scale_elements(norm, 1.5f, &z, 0, 1, &out);
  CHECK(to_float(Dtype::bf16, out) == 1.5f);
}

}  // namespace
}  // namespace ringfence::verify

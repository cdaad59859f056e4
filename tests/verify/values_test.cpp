// Intervals of right values: each operation against a computation that is exact, or independent.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/verify/throws.hpp"
#include "verify/random.hpp"
#include "verify/values.hpp"

namespace ringfence::verify {
namespace {

Values of(const std::vector<double>& numbers, std::int64_t columns = 0) {
  return values_of(Dtype::f64, reinterpret_cast<const std::byte*>(numbers.data()), numbers.size(),
                   columns);
}

// As fp32 numbers, so that arithmetic is that of kernels.
Values narrow(const std::vector<float>& numbers, std::int64_t columns = 0) {
  return values_of(Dtype::f32, reinterpret_cast<const std::byte*>(numbers.data()), numbers.size(),
                   columns);
}

std::vector<float> normals(std::size_t count, std::uint64_t stream, double scale = 1) {
  const CounterRandom random(7, 0, stream);
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<float>(scale) * random.normal(i));
  }
  return out;
}

bool holds(const Values& v, std::size_t i, double x) { return v.low[i] <= x && x <= v.high[i]; }

TEST_CASE("a sum in fp32 lies within its interval in every order") {
  for (int terms = 2; terms <= 7; ++terms) {
    std::vector<std::vector<float>> data;
    std::vector<Values> parts;
    for (int r = 0; r < terms; ++r) {
      data.push_back(normals(16, static_cast<std::uint64_t>(r), std::ldexp(1.0, 3 * r)));
      parts.push_back(narrow(data.back()));
    }
    std::vector<const Values*> all;
    for (const Values& p : parts) all.push_back(&p);
    const Values sum = reduce(Reduction::sum, all, {});
    std::vector<int> order;
    for (int r = 0; r < terms; ++r) order.push_back(r);
    do {
      for (std::size_t i = 0; i < 16; ++i) {
        float total = 0;
        for (const int r : order) total += data[static_cast<std::size_t>(r)][i];
        CHECK(holds(sum, i, total));
      }
    } while (std::next_permutation(order.begin(), order.end()) && terms < 7);
  }
}

TEST_CASE("sums that no order rounds have one right value") {
  const Values a = narrow({1, 2, -3, 0.5f}), b = narrow({4, -2, 7, 0.25f}),
               c = narrow({9, 1, 1, 8});
  const Values sum = reduce(Reduction::sum, {&a, &b, &c}, {});
  CHECK(sum.low == std::vector<double>{14, 1, 5, 8.75});
  CHECK(sum.high == sum.low);
  // 2^24 + 1 is no fp32 number.
  const Values large = narrow({16777216}), one = narrow({1}), two = narrow({2});
  const Values rounded = reduce(Reduction::sum, {&large, &one, &two}, {});
  CHECK(rounded.low[0] < rounded.high[0]);
  // Of a narrower accumulator the same holds earlier: 256 + 1 in bf16.
  const Values v = narrow({256}), w = narrow({1});
  CHECK(reduce(Reduction::sum, {&v, &w}, {Dtype::bf16}).high[0] > 257);
}

TEST_CASE("integers are added modulo their width, and compared by their sign") {
  const std::uint8_t x[] = {250, 1}, y[] = {10, 255};
  const Values a = values_of(Dtype::u8, reinterpret_cast<const std::byte*>(x), 2);
  const Values b = values_of(Dtype::u8, reinterpret_cast<const std::byte*>(y), 2);
  CHECK(reduce(Reduction::sum, {&a, &b}, {}).bits == std::vector<std::uint64_t>{4, 0});
  CHECK(reduce(Reduction::product, {&a, &b}, {}).bits == std::vector<std::uint64_t>{196, 255});
  CHECK(reduce(Reduction::max, {&a, &b}, {}).bits == std::vector<std::uint64_t>{250, 255});
  const Values c = values_of(Dtype::s8, reinterpret_cast<const std::byte*>(x), 2);
  const Values d = values_of(Dtype::s8, reinterpret_cast<const std::byte*>(y), 2);
  CHECK(reduce(Reduction::max, {&c, &d}, {}).bits == std::vector<std::uint64_t>{10, 1});
  CHECK(reduce(Reduction::min, {&c, &d}, {}).bits == std::vector<std::uint64_t>{250, 255});
}

TEST_CASE("magnitudes of integers are exact modulo their width, and casts to integers saturate") {
  const auto bits_of = [](Dtype dtype, const auto& numbers) {
    return values_of(dtype, reinterpret_cast<const std::byte*>(numbers.data()), numbers.size());
  };
  using Bits = std::vector<std::uint64_t>;
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  const Values wide = bits_of(Dtype::s64, std::vector<std::int64_t>{odd, -odd, INT64_MIN});
  const auto odd_bits = static_cast<std::uint64_t>(odd);
  CHECK(apply(Unary::absolute, wide).bits == Bits{odd_bits, odd_bits, std::uint64_t{1} << 63});
  CHECK(apply(Unary::absolute, bits_of(Dtype::s8, std::vector<std::int8_t>{-128, -127, 5})).bits ==
        Bits{0x80, 127, 5});
  CHECK(apply(Unary::absolute, bits_of(Dtype::u8, std::vector<std::uint8_t>{128, 255})).bits ==
        Bits{128, 255});
  // A scale is made of the magnitude itself.
  CHECK(largest_magnitude(bits_of(Dtype::s8, std::vector<std::int8_t>{-128, 127}), 0).value ==
        std::vector<double>{128});

  const Values words = bits_of(Dtype::s32, std::vector<std::int32_t>{300, -300, 127, -128, -1});
  CHECK(cast(words, Dtype::s8).bits == Bits{127, 0x80, 127, 0x80, 0xff});
  CHECK(cast(words, Dtype::u8).bits == Bits{255, 0, 127, 0, 0});
  CHECK(cast(words, Dtype::s64).bits ==
        Bits{300, ~std::uint64_t{0} - 299, 127, ~std::uint64_t{0} - 127, ~std::uint64_t{0}});
  // What is stored in fewer bytes without a cast has its low ones.
  CHECK(expectation(words, Dtype::u8).values.bits == Bits{44, 212, 127, 128, 255});
  const Values large = bits_of(Dtype::u64, Bits{~std::uint64_t{0}, 7});
  CHECK(cast(large, Dtype::s64).bits == Bits{~std::uint64_t{0} >> 1, 7});
  CHECK(cast(large, Dtype::u32).bits == Bits{0xffffffff, 7});
}

TEST_CASE(
    "rounding makes most intervals one value, and keeps every result that a kernel may give") {
  const std::size_t count = 4096;
  const std::vector<float> x = normals(count, 1), y = normals(count, 2), z = normals(count, 3);
  const Values a = narrow(x), b = narrow(y), c = narrow(z);
  const Values total = cast(reduce(Reduction::sum, {&a, &b, &c}, {}), Dtype::bf16);
  std::size_t single = 0;
  for (std::size_t i = 0; i < count; ++i) {
    single += total.low[i] == total.high[i] ? 1 : 0;
    for (const float sum : {(x[i] + y[i]) + z[i], x[i] + (y[i] + z[i]), (x[i] + z[i]) + y[i]}) {
      CHECK(holds(total, i, bf16_to_float(float_to_bf16(sum))));
    }
  }
  CHECK(single > count * 99 / 100);
}

TEST_CASE("a norm's interval holds the norm in fp32, by any order of its sum, and no other eps") {
  const std::int64_t rows = 8, columns = 64;
  // A mean square near eps, where 1/sqrt(mean + eps) and 1/sqrt(mean) + eps differ.
  const std::vector<float> x = normals(static_cast<std::size_t>(rows * columns), 5, 1e-3);
  const Values s = reciprocal_rms(narrow(x, columns), 1e-6);
  REQUIRE(s.rows == rows);
  REQUIRE(s.columns == 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    float forward = 0, backward = 0;
    for (std::int64_t c = 0; c < columns; ++c) {
      const float f = x[static_cast<std::size_t>(r * columns + c)];
      const float b = x[static_cast<std::size_t>(r * columns + columns - 1 - c)];
      forward += f * f;
      backward = std::fma(b, b, backward);
    }
    for (const float sum : {forward, backward}) {
      const float mean = sum / static_cast<float>(columns);
      CHECK(holds(s, static_cast<std::size_t>(r), 1 / std::sqrt(mean + 1e-6f)));
      CHECK_FALSE(holds(s, static_cast<std::size_t>(r), 1 / std::sqrt(mean) + 1e-6f));
    }
    CHECK(s.high[static_cast<std::size_t>(r)] / s.low[static_cast<std::size_t>(r)] < 1 + 1e-4);
  }
}

TEST_CASE("layernorm, softmax and products hold what double and fp32 arithmetic give") {
  const std::int64_t rows = 4, columns = 32;
  const std::vector<float> x = normals(static_cast<std::size_t>(rows * columns), 8);
  const Values v = narrow(x, columns);
  const Values norm = normalise(v, 1e-5), soft = softmax(v);
  for (std::int64_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0, total = 0;
    const auto at = [&](std::int64_t c) { return static_cast<std::size_t>(r * columns + c); };
    for (std::int64_t c = 0; c < columns; ++c) mean += x[at(c)] / double(columns);
    for (std::int64_t c = 0; c < columns; ++c) {
      variance += (x[at(c)] - mean) * (x[at(c)] - mean) / double(columns);
      total += std::exp(double{x[at(c)]});
    }
    for (std::int64_t c = 0; c < columns; ++c) {
      CHECK(holds(norm, at(c), (x[at(c)] - mean) / std::sqrt(variance + 1e-5)));
      CHECK_FALSE(holds(norm, at(c), (x[at(c)] - mean) / std::sqrt(variance + 1e-2)));
      CHECK(holds(soft, at(c), std::exp(double{x[at(c)]}) / total));
      CHECK_FALSE(holds(soft, at(c), std::exp(double{x[at(c)]}) / total * 1.001));
    }
  }
  const std::vector<float> w = normals(static_cast<std::size_t>(5 * columns), 9);
  for (const std::int64_t tile : {0, 8}) {
    const Values p = matmul(v, narrow(w, columns), columns, tile);
    REQUIRE(p.rows == rows);
    REQUIRE(p.columns == 5);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < 5; ++j) {
        float parts[4] = {}, whole = 0;
        for (std::int64_t k = 0; k < columns; ++k) {
          const float term = x[static_cast<std::size_t>(i * columns + k)] *
                             w[static_cast<std::size_t>(j * columns + k)];
          parts[k / 8] += term;
          whole += term;
        }
        const auto index = static_cast<std::size_t>(i * 5 + j);
        CHECK(holds(p, index, ((parts[0] + parts[1]) + parts[2]) + parts[3]));
        if (tile == 0) CHECK(holds(p, index, whole));
      }
    }
  }
}

TEST_CASE("the order of a product by tiles has the narrower interval") {
  const std::int64_t inner = 256;
  const Values a = narrow(normals(static_cast<std::size_t>(inner), 1), inner);
  const Values b = narrow(normals(static_cast<std::size_t>(inner), 2), inner);
  const Values any = matmul(a, b, inner, 0), tiled = matmul(a, b, inner, 16);
  CHECK(tiled.high[0] - tiled.low[0] < (any.high[0] - any.low[0]) / 4);
  CHECK_ERROR(matmul(a, b, 100, 0), "256", "rows of the inner size");
}

TEST_CASE("groups share a scale, and quantising saturates") {
  const Values x = narrow({1, -8, 3, 0.5f, 100, 7, -2, 4}, 4);
  CHECK(largest_magnitude(x, 0).high == std::vector<double>{8, 100});
  CHECK(largest_magnitude(x, 2).high == std::vector<double>{8, 3, 100, 4});
  CHECK(largest_magnitude(x, -1).high == std::vector<double>{100});
  CHECK_ERROR(largest_magnitude(x, 3), "groups of 3", "4 columns");
  const Values scaled = combine(Binary::divide, x, largest_magnitude(x, 2));
  CHECK(holds(scaled, 3, 0.5 / 3));
  CHECK(cast(of({500, -1e9, 0.3}), Dtype::e4m3).value == std::vector<double>{448, -448, 0.3125});
  CHECK(cast(of({500, -1e9, 2.5, -128.4}), Dtype::s8).value ==
        std::vector<double>{127, -128, 2, -128});
  CHECK_ERROR(combine(Binary::add, narrow({1, 2, 3}, 3), narrow({1, 2}, 2)), "does not fit");
}

TEST_CASE("exact operands that divide by 0, or have no root, leave nothing open") {
  const Values zero = narrow({0, 0, 0, -0.0f}, 4);
  const Values quotient = combine(Binary::divide, narrow({1, -2, 0, 3}, 4), zero);
  const std::vector<double> right{HUGE_VAL, -HUGE_VAL, std::nan(""), -HUGE_VAL};
  for (std::size_t i = 0; i < right.size(); ++i) {
    CAPTURE(i);
    CHECK(std::isnan(quotient.low[i]) == std::isnan(right[i]));
    CHECK(std::isnan(quotient.high[i]) == std::isnan(right[i]));
    if (std::isnan(right[i])) continue;
    CHECK(quotient.low[i] == right[i]);
    CHECK(quotient.high[i] == right[i]);
  }
  for (const Unary what : {Unary::root, Unary::reciprocal_root}) {
    const Values roots = apply(what, narrow({-1, -0x1p-140f, 4}, 3));
    CHECK(std::isnan(roots.low[0]));
    CHECK(holds(roots, 1, 0));  // flushed to -0, or not a number
    CHECK(roots.high[2] < 3);
  }
}

TEST_CASE("every 8-bit float survives decoding and encoding, and rounding goes to the nearest") {
  for (const Dtype dtype : {Dtype::e4m3, Dtype::e5m2}) {
    std::vector<double> all;
    for (std::uint64_t bits = 0; bits < 256; ++bits) {
      const double x = decode(dtype, bits);
      if (!std::isfinite(x)) continue;
      CHECK(encode(dtype, x) == bits);
      all.push_back(x);
    }
    std::sort(all.begin(), all.end());
    for (double x = -600; x < 600; x += 0.37) {
      double nearest = HUGE_VAL;
      for (const double other : all) nearest = std::min(nearest, std::abs(other - x));
      CHECK(std::abs(decode(dtype, encode(dtype, x)) - x) == nearest);
    }
    CHECK(std::isnan(decode(dtype, encode(dtype, std::nan("")))));
  }
  CHECK(decode(Dtype::e4m3, 0x7e) == 448);
  CHECK(decode(Dtype::e5m2, 0x7b) == 57344);
  CHECK(std::isinf(decode(Dtype::e5m2, 0x7c)));
}

TEST_CASE("an expectation judges each element, NaN and infinities by class") {
  const Expectation e = expectation(of({1, 2, std::nan(""), HUGE_VAL}, 2), Dtype::bf16);
  CHECK(e.shape == Shape{2, 2});
  std::uint16_t got[] = {0x3f80, 0x4000, 0x7fc0, 0x7f80};
  const auto* bytes = reinterpret_cast<const std::byte*>(got);
  CHECK(first_wrong(e, bytes) == 4);
  CHECK(compare("t", e, bytes).passed());
  got[1] = 0x4001;
  CHECK(first_wrong(e, bytes) == 1);
  const Comparison c = compare("t", e, bytes);
  CHECK(c.mismatches == 1);
  CHECK(c.first.expected_bits == 0x4000);
  CHECK(c.max_absolute == 0x1p-6);
  got[1] = 0x4000;
  got[2] = 0x3f80;
  CHECK(first_wrong(e, bytes) == 2);
  got[2] = 0x7fc0;
  got[3] = 0xff80;
  CHECK(first_wrong(e, bytes) == 3);
}

}  // namespace
}  // namespace ringfence::verify

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <vector>

#include "tests/verify/throws.hpp"
#include "verify/inputs.hpp"
#include "verify/random.hpp"

namespace ringfence::verify {
namespace {

Problem with(int ranks, std::int64_t tokens, std::int64_t inner, std::int64_t hidden,
             Dtype dtype = Dtype::bf16) {
  Problem p;
  p.ranks = ranks;
  p.tokens = tokens;
  p.inner = inner;
  p.hidden = hidden;
  p.dtype = dtype;
  return p;
}

// Partials of integer inputs, by integer arithmetic: [rank][t·H + h].
std::vector<std::vector<std::int64_t>> integer_partials(const Problem& p, const Inputs& inputs) {
  std::vector<std::vector<std::int64_t>> partials;
  for (int rank = 0; rank < p.ranks; ++rank) {
    std::vector<std::int64_t> partial;
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      for (std::int64_t h = 0; h < p.hidden; ++h) {
        std::int64_t sum = 0;
        for (std::int64_t k = rank * p.inner_per_rank(); k < (rank + 1) * p.inner_per_rank(); ++k) {
          sum += std::llround(to_float(p.dtype, inputs.x.row(t)[k])) *
                 std::llround(to_float(p.dtype, inputs.weight.row(h)[k]));
        }
        partial.push_back(sum);
      }
    }
    partials.push_back(std::move(partial));
  }
  return partials;
}

TEST_CASE("the generator is SplitMix64's mix: its published first output for seed 0") {
  CHECK(mix_bits(0x9e3779b97f4a7c15u) == 0xe220a8397b1dcdafu);
}

TEST_CASE("normal numbers have mean 0, variance 1 and kurtosis near 3") {
  const CounterRandom random(1, 2, 3);
  double sum = 0, squares = 0, fourth = 0;
  constexpr int count = 200'000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = random.normal(i);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  CHECK(std::abs(sum / count) < 0.01);
  CHECK(std::abs(squares / count - 1) < 0.015);
  CHECK(std::abs(fourth / count - 3) < 0.3);  // eight uniform numbers: 3 - 1.2/8
}

TEST_CASE("generated inputs are a function of seed and call, and differ between calls") {
  for (const Fill fill : {Fill::normal, Fill::integers, Fill::exact_rows}) {
    CAPTURE(fill_name(fill));
    Problem p = with(4, 16, 64, 64);
    p.has_beta = true;
    const Inputs a = generate(p, fill, 7, 0);
    const Inputs same = generate(p, fill, 7, 0);
    const Inputs next_call = generate(p, fill, 7, 1);
    const Inputs next_seed = generate(p, fill, 8, 0);
    for (const auto member :
         {&Inputs::x, &Inputs::weight, &Inputs::residual, &Inputs::gamma, &Inputs::beta}) {
      CHECK((a.*member).bytes == (same.*member).bytes);
      CHECK((a.*member).bytes != (next_call.*member).bytes);
      CHECK((a.*member).bytes != (next_seed.*member).bytes);
    }
  }
}

TEST_CASE("normal inputs differ between the ranks' columns") {
  const Problem p = with(4, 8, 64, 64);
  const Inputs inputs = generate(p, Fill::normal, 7, 0);
  std::set<std::vector<std::uint16_t>> slices;
  for (std::int64_t t = 0; t < 8; ++t) {
    for (int r = 0; r < 4; ++r) {
      const std::uint16_t* begin = inputs.x.row(t) + r * 16;
      slices.insert(std::vector<std::uint16_t>(begin, begin + 16));
    }
  }
  CHECK(slices.size() == 32);
}

TEST_CASE("integer inputs keep every sum exact, and no vector of a partial is all zero") {
  for (const Fill fill : {Fill::integers, Fill::exact_rows}) {
    for (const int ranks : {1, 2, 3, 8, 64}) {
      for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
        CAPTURE(fill_name(fill));
        CAPTURE(ranks);
        const Problem p = with(ranks, 6, ranks * 4, 128, dtype);
        const Inputs inputs = generate(p, fill, 3, 1);
        const auto partials = integer_partials(p, inputs);
        std::int64_t largest_sum = 0, largest_square = 0;
        int zeros = 0;
        for (std::size_t i = 0; i < partials[0].size(); ++i) {
          const std::int64_t residual = std::llround(inputs.residual.value(i));
          std::int64_t magnitude = std::abs(residual), z = residual;
          for (const auto& partial : partials) {
            magnitude += std::abs(partial[i]);
            z += partial[i];
            zeros += partial[i] == 0;
          }
          largest_sum = std::max(largest_sum, magnitude);
          largest_square = std::max(largest_square, z * z);
        }
        CHECK(largest_sum <= 256);
        CHECK(p.hidden * largest_square <= 1 << 24);
        CHECK(zeros == 0);
      }
    }
  }
}

TEST_CASE("integer inputs at a bench size keep the sum of squares exact too") {
  for (const std::int64_t hidden : {5120, 7168, 8192}) {
    const Problem p = with(8, 2, 64, hidden);
    const Inputs inputs = generate(p, Fill::integers, 3, 1);
    const auto partials = integer_partials(p, inputs);
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < partials[0].size(); ++i) {
      std::int64_t z = std::llround(inputs.residual.value(i));
      for (const auto& partial : partials) z += partial[i];
      largest = std::max(largest, std::abs(z));
    }
    CHECK(hidden * largest * largest <= 1 << 24);
  }
}

TEST_CASE("exact rows: each vector of z is a signed permutation whose squares sum to 2048") {
  for (const int ranks : {1, 4, 64}) {
    const Problem p = with(ranks, 8, ranks * 2, 64);
    const Inputs inputs = generate(p, Fill::exact_rows, 5, 2);
    const auto partials = integer_partials(p, inputs);
    std::set<std::vector<std::int64_t>> vectors;
    for (std::size_t first = 0; first < partials[0].size(); first += 8) {
      std::vector<std::int64_t> z;
      std::multiset<std::int64_t> magnitudes;
      for (std::size_t i = first; i < first + 8; ++i) {
        z.push_back(std::llround(inputs.residual.value(i)));
        for (const auto& partial : partials) z.back() += partial[i];
        magnitudes.insert(std::abs(z.back()));
      }
      CHECK(magnitudes == std::multiset<std::int64_t>{2, 2, 2, 6, 10, 18, 26, 30});
      vectors.insert(z);
    }
    CHECK(vectors.size() == partials[0].size() / 8);  // all different
  }
}

TEST_CASE("what cannot be generated is refused") {
  CHECK_ERROR(generate(with(1, 1, 1, 65544), Fill::exact_rows, 0, 0), "--hidden 65544", "65536");
  Problem p = with(1, 1, 1, 8);
  p.eps = 2e-5f;
  CHECK_ERROR(generate(p, Fill::exact_rows, 0, 0), "--eps", "1e-5");
  CHECK_ERROR(generate(with(1, 1, 1, 12), Fill::normal, 0, 0), "--hidden 12");
  CHECK_ERROR(parse_fill("zeros"), "zeros", "normal, integers or exact-rows");
  for (const Fill fill : {Fill::normal, Fill::integers, Fill::exact_rows}) {
    CHECK(parse_fill(fill_name(fill)) == fill);
  }
}

TEST_CASE("which outputs are exact follows flavour and H") {
  Problem p = with(1, 1, 1, 5120);
  CHECK(out_is_exact(p, Fill::exact_rows));
  CHECK_FALSE(out_is_exact(p, Fill::integers));
  CHECK(residual_out_is_exact(Fill::integers));
  CHECK_FALSE(residual_out_is_exact(Fill::normal));
  p.flavour = Flavour::pypto;
  CHECK_FALSE(out_is_exact(p, Fill::exact_rows));
  p.hidden = 4096;
  CHECK(out_is_exact(p, Fill::exact_rows));
}

}  // namespace
}  // namespace ringfence::verify

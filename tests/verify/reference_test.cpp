#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "verify/doctest.hpp"
#include "verify/product.hpp"
#include "verify/random.hpp"
#include "verify/reference.hpp"

namespace ringfence::verify {
namespace {

Problem with(Flavour flavour, int ranks, Dtype dtype = Dtype::bf16) {
  Problem p;
  p.flavour = flavour;
  p.ranks = ranks;
  p.tokens = 16;
  p.inner = 64;
  p.hidden = 256;
  p.dtype = dtype;
  p.eps = 1e-5f;
  return p;
}

struct Case {
  Problem problem;
  Inputs inputs;
  std::vector<Tensor> tensors;
  Partials partials;

  Case(const Problem& p, Fill fill, std::uint64_t seed = 1)
      : problem(p), inputs(generate(p, fill, seed, 0)) {
    for (int r = 0; r < p.ranks; ++r) tensors.push_back(product(p, inputs, r));
    for (const Tensor& tensor : tensors) partials.push_back(tensor.bytes.data());
  }
  // Another gamma, in fp32 whatever the data is.
  void widen_gamma() {
    inputs.gamma = Tensor(Dtype::f32, {problem.hidden});
    for (std::int64_t i = 0; i < problem.hidden; ++i) {
      inputs.gamma.floats()[i] = 1 + static_cast<float>(i % 17) * 0.013f;
    }
  }
  RowRange rows() const { return {0, problem.tokens}; }
};

constexpr Summation kAll[] = {Summation::fp32_rank_order, Summation::fp32_given_order,
                              Summation::exact_once, Summation::each_step,
                              Summation::fp32_truncated};

// Another order for each 16-byte vector.
void shuffled(std::int64_t row, std::int64_t vector, int* order, int ranks) {
  std::iota(order, order + ranks, 0);
  std::rotate(order, order + (row + vector) % ranks, order + ranks);
  if (vector % 2 == 1) std::reverse(order, order + ranks);
}

TEST_CASE("the double reference is the operator's formula") {
  for (const Flavour flavour : {Flavour::tokenweave, Flavour::pypto}) {
    Problem p = with(flavour, 4);
    p.has_beta = true;
    const Case c(p, Fill::normal);
    const FusedReference reference =
        fused_reference(p, c.inputs, c.partials, Summation::fp32_rank_order, {3, 6});
    for (std::int64_t t = 3; t < 6; ++t) {
      std::vector<long double> z;
      long double squares = 0;
      for (std::int64_t h = 0; h < p.hidden; ++h) {
        const auto i = static_cast<std::size_t>(t * p.hidden + h);
        z.push_back(c.inputs.residual.value(i));
        for (const Tensor& partial : c.tensors) z.back() += partial.value(i);
        squares += z.back() * z.back();
      }
      const long double rms = std::sqrt(squares / p.hidden + static_cast<long double>(p.eps));
      for (std::size_t h = 0; h < z.size(); ++h) {
        const std::size_t i = static_cast<std::size_t>((t - 3) * p.hidden) + h;
        const long double out = z[h] / rms * c.inputs.gamma.value(h) + c.inputs.beta.value(h);
        CHECK(std::abs(reference.residual_out[i] - static_cast<double>(z[h])) < 1e-13);
        CHECK(std::abs(reference.out[i] - static_cast<double>(out)) < 1e-13);
      }
    }
  }
}

TEST_CASE("the rounding-exact reference lies within the bounds of the double one") {
  for (const Flavour flavour : {Flavour::tokenweave, Flavour::pypto}) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
      for (const int ranks : {1, 2, 8}) {
        for (const bool beta : {false, true}) {
          Problem p = with(flavour, ranks, dtype);
          p.has_beta = beta;
          p.width = vector_elements(dtype);
          Case c(p, Fill::normal);
          if (ranks == 2) c.widen_gamma();
          for (const Summation policy : kAll) {
            CAPTURE(flavour_name(flavour));
            CAPTURE(summation_name(policy));
            const auto order = [&](std::int64_t row, std::int64_t vector, int* order) {
              shuffled(row, vector, order, ranks);
            };
            const Outputs exact = exact_fused(p, c.inputs, c.partials, policy, order);
            const FusedReference fused = fused_reference(p, c.inputs, c.partials, policy, c.rows());
            RINGFENCE_CHECK_COMPARISON(compare("out", exact.out, fused.out, fused.out_bound));
            RINGFENCE_CHECK_COMPARISON(compare("residual_out", exact.residual_out,
                                               fused.residual_out, fused.residual_out_bound));
            const FusedReference whole = operator_reference(p, c.inputs, policy, c.rows());
            RINGFENCE_CHECK_COMPARISON(
                compare("out of the operator", exact.out, whole.out, whole.out_bound));
            RINGFENCE_CHECK_COMPARISON(compare("residual_out of the operator", exact.residual_out,
                                               whole.residual_out, whole.residual_out_bound));
          }
        }
      }
    }
  }
}

TEST_CASE("integer inputs: residual_out is one set of bits under every policy and order") {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    const Problem p = with(Flavour::tokenweave, 8, dtype);
    const Case c(p, Fill::integers);
    const Outputs first = exact_fused(p, c.inputs, c.partials, Summation::exact_once);
    for (const Summation policy : kAll) {
      const Outputs other = exact_fused(p, c.inputs, c.partials, policy,
                                        [](std::int64_t row, std::int64_t vector, int* order) {
                                          shuffled(row, vector, order, 8);
                                        });
      RINGFENCE_CHECK_COMPARISON(
          compare_bits("residual_out", other.residual_out, first.residual_out));
      RINGFENCE_CHECK_COMPARISON(compare_bits("out", other.out, first.out));
    }
  }
}

TEST_CASE("exact rows: out is z/16·gamma in both flavours, bit for bit") {
  for (const Flavour flavour : {Flavour::tokenweave, Flavour::pypto}) {
    for (const std::int64_t hidden : {256, 4096}) {
      Problem p = with(flavour, 8);
      p.hidden = hidden;
      p.tokens = 8;
      p.has_beta = true;
      REQUIRE(out_is_exact(p, Fill::exact_rows));
      const Case c(p, Fill::exact_rows);
      const Outputs exact = exact_fused(p, c.inputs, c.partials, Summation::each_step);
      Tensor z(p.dtype, {p.tokens, p.hidden}), out = z;
      for (std::size_t i = 0; i < z.elements(); ++i) {
        double sum = c.inputs.residual.value(i);
        for (const Tensor& partial : c.tensors) sum += partial.value(i);
        const std::size_t h = i % static_cast<std::size_t>(hidden);
        z.bits()[i] = round_double_to(p.dtype, sum);
        out.bits()[i] =
            round_double_to(p.dtype, sum / 16 * c.inputs.gamma.value(h) + c.inputs.beta.value(h));
      }
      RINGFENCE_CHECK_COMPARISON(compare_bits("residual_out", exact.residual_out, z));
      RINGFENCE_CHECK_COMPARISON(compare_bits("out", exact.out, out));
    }
  }
}

TEST_CASE("exact rows at H = 5120 and 7168 are exact for tokenweave, which divides by H") {
  for (const std::int64_t hidden : {5120, 7168}) {
    Problem p = with(Flavour::tokenweave, 4);
    p.hidden = hidden;
    p.tokens = 4;
    const Case c(p, Fill::exact_rows);
    const Outputs exact = exact_fused(p, c.inputs, c.partials, Summation::fp32_truncated);
    int wrong = 0;
    for (std::size_t i = 0; i < exact.out.elements(); ++i) {
      const double gamma = c.inputs.gamma.value(i % static_cast<std::size_t>(hidden));
      wrong += exact.out.value(i) != exact.residual_out.value(i) / 16 * gamma;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a block of rows is those rows of the whole") {
  const Problem p = with(Flavour::tokenweave, 4);
  const Case c(p, Fill::normal);
  const Outputs whole = exact_fused(p, c.inputs, c.partials, Summation::fp32_rank_order);
  std::vector<std::uint16_t> out(static_cast<std::size_t>(3 * p.hidden)), residual_out = out;
  exact_fused(p, c.inputs, c.partials, Summation::fp32_rank_order, {5, 8}, out.data(),
              residual_out.data());
  CHECK(std::equal(out.begin(), out.end(), whole.out.row(5)));
  CHECK(std::equal(residual_out.begin(), residual_out.end(), whole.residual_out.row(5)));
}

}  // namespace
}  // namespace ringfence::verify

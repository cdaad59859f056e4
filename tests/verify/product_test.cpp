#include <doctest/doctest.h>

#include <cmath>

#include "verify/compare.hpp"
#include "verify/doctest.hpp"
#include "verify/product.hpp"

namespace ringfence::verify {
namespace {

Problem with(Dtype dtype, int ranks) {
  Problem p;
  p.ranks = ranks;
  p.tokens = 5;
  p.inner = 96;
  p.hidden = 520;  // more than one block of weight rows, the last one short
  p.dtype = dtype;
  return p;
}

TEST_CASE("the product of a rank takes that rank's columns: integers come out exact") {
  for (const int ranks : {1, 2, 4}) {
    const Problem p = with(Dtype::bf16, ranks);
    const Inputs inputs = generate(p, Fill::integers, 1, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      const Tensor partial = product(p, inputs, rank);
      int wrong = 0;
      for (std::int64_t t = 0; t < p.tokens; ++t) {
        for (std::int64_t h = 0; h < p.hidden; ++h) {
          float sum = 0;
          for (std::int64_t k = rank * p.inner / ranks; k < (rank + 1) * p.inner / ranks; ++k) {
            sum += bf16_to_float(inputs.x.row(t)[k]) * bf16_to_float(inputs.weight.row(h)[k]);
          }
          wrong += bf16_to_float(partial.row(t)[h]) != sum;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the product lies within the bound of its double-precision reference") {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    const Problem p = with(dtype, 2);
    const Inputs inputs = generate(p, Fill::normal, 1, 0);
    for (int rank = 0; rank < p.ranks; ++rank) {
      const Tensor partial = product(p, inputs, rank);
      const ProductReference reference = product_reference(p, inputs, rank, {0, p.tokens});
      RINGFENCE_CHECK_COMPARISON(compare("partial", partial, reference.value, reference.bound));
    }
  }
}

TEST_CASE("the reference's bound is gamma·Σ|x·w| + u·|p|, and little more") {
  const Problem p = with(Dtype::bf16, 2);
  const Inputs inputs = generate(p, Fill::normal, 1, 0);
  const ProductReference reference = product_reference(p, inputs, 1, {2, 4});
  int wrong = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t h = 0; h < p.hidden; ++h) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 48; k < 96; ++k) {
        const double term = static_cast<double>(bf16_to_float(inputs.x.row(2 + i)[k])) *
                            static_cast<double>(bf16_to_float(inputs.weight.row(h)[k]));
        sum += term;
        magnitude += std::abs(term);
      }
      const auto at = static_cast<std::size_t>(i * p.hidden + h);
      const double bound = 48 * 0x1p-24 * magnitude + 0x1p-8 * std::abs(sum);
      wrong += std::abs(reference.value[at] - sum) > 1e-12;
      wrong += reference.bound[at] < bound || reference.bound[at] > bound * 1.01;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a block of rows is those rows of the whole product") {
  const Problem p = with(Dtype::bf16, 2);
  const Inputs inputs = generate(p, Fill::normal, 1, 0);
  const Tensor whole = product(p, inputs, 1);
  std::vector<std::uint16_t> rows(static_cast<std::size_t>(2 * p.hidden));
  product(p, inputs, 1, {1, 3}, rows.data());
  const ProductReference reference = product_reference(p, inputs, 1, {1, 3});
  // Another shape may make Eigen sum in another order, so not bit for bit.
  RINGFENCE_CHECK_COMPARISON(compare("rows", p.dtype, {2, p.hidden}, rows.data(),
                                     reference.value.data(), reference.bound.data(), rows.size()));
  RINGFENCE_CHECK_COMPARISON(compare("rows of the whole", p.dtype, {2, p.hidden}, whole.row(1),
                                     reference.value.data(), reference.bound.data(), rows.size()));
}

}  // namespace
}  // namespace ringfence::verify

// Inputs of a trained checkpoint; the tests' working directory is the repository's root.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "verify/doctest.hpp"
#include "verify/inputs.hpp"
#include "verify/product.hpp"
#include "verify/reference.hpp"

namespace ringfence::verify {
namespace {

std::vector<std::string> real_files() {
  std::vector<std::string> files;
  for (int layer = 0; layer < 5; ++layer) {
    files.push_back("tests/inputs/stories260k-layer" + std::to_string(layer) + ".safetensors");
  }
  return files;
}

TEST_CASE("real inputs load with the shapes and eps that their README gives") {
  for (const std::string& path : real_files()) {
    const LoadedInputs loaded = load_inputs(path);
    CHECK(loaded.tokens == 96);
    CHECK(loaded.inner == 64);
    CHECK(loaded.hidden == 64);
    CHECK(loaded.dtype == Dtype::bf16);
    CHECK(loaded.has_eps);
    CHECK(loaded.eps == 1e-5f);
    CHECK_FALSE(loaded.inputs.has_beta());
  }
}

TEST_CASE("real inputs: the rounding-exact reference lies within the bounds, 2, 4 and 8 ranks") {
  for (const std::string& path : real_files()) {
    const LoadedInputs loaded = load_inputs(path);
    for (const Flavour flavour : {Flavour::tokenweave, Flavour::pypto}) {
      for (const int ranks : {2, 4, 8}) {
        Problem p;
        adopt(p, loaded);
        p.flavour = flavour;
        p.ranks = ranks;
        validate(p);
        const RowRange rows{0, p.tokens};
        std::vector<Tensor> tensors;
        Partials partials;
        for (int rank = 0; rank < ranks; ++rank) tensors.push_back(product(p, loaded.inputs, rank));
        for (const Tensor& tensor : tensors) partials.push_back(tensor.bits());
        for (int rank = 0; rank < ranks; ++rank) {
          const ProductReference reference = product_reference(p, loaded.inputs, rank, rows);
          RINGFENCE_CHECK_COMPARISON(compare("partial", tensors[static_cast<std::size_t>(rank)],
                                             reference.value, reference.bound));
        }
        for (const Summation policy : {Summation::fp32_rank_order, Summation::exact_once,
                                       Summation::each_step, Summation::fp32_truncated}) {
          const std::string suffix = std::string(" ") + flavour_name(flavour);
          const Outputs exact = exact_fused(p, loaded.inputs, partials, policy);
          const FusedReference fused = fused_reference(p, loaded.inputs, partials, policy, rows);
          RINGFENCE_CHECK_COMPARISON(
              compare("out" + suffix, exact.out, fused.out, fused.out_bound));
          RINGFENCE_CHECK_COMPARISON(compare("residual_out" + suffix, exact.residual_out,
                                             fused.residual_out, fused.residual_out_bound));
          const FusedReference whole = operator_reference(p, loaded.inputs, policy, rows);
          RINGFENCE_CHECK_COMPARISON(
              compare("operator out" + suffix, exact.out, whole.out, whole.out_bound));
        }
      }
    }
  }
}

}  // namespace
}  // namespace ringfence::verify

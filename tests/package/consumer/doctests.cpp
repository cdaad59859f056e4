// A doctest of somebody's own, as README shows it: what a kernel gave against the Eigen reference.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <verify/doctest.hpp>
#include <verify/inputs.hpp>
#include <verify/product.hpp>
#include <verify/reference.hpp>

namespace verify = ringfence::verify;

namespace {

struct Operator {
  verify::Problem problem;
  verify::Outputs got;  // stands for what a GPU wrote
  verify::FusedReference expected;
};

Operator run_operator() {
  Operator o;
  o.problem.ranks = 2;
  o.problem.tokens = 3;
  o.problem.inner = 64;
  o.problem.hidden = 64;
  const verify::Inputs inputs = verify::generate(o.problem, verify::Fill::normal, 3, 0);
  const verify::Tensor products[] = {verify::product(o.problem, inputs, 0),
                                     verify::product(o.problem, inputs, 1)};
  const verify::Partials partials{products[0].bits(), products[1].bits()};
  constexpr auto kOrder = verify::Summation::fp32_rank_order;
  o.got = verify::exact_fused(o.problem, inputs, partials, kOrder);
  o.expected = verify::fused_reference(o.problem, inputs, partials, kOrder, {0, o.problem.tokens});
  return o;
}

}  // namespace

TEST_CASE("the fused kernel on a GPU") {
  const Operator o = run_operator();
  RINGFENCE_CHECK_TENSOR("out", o.got.out, o.expected.out, o.expected.out_bound);
}

TEST_CASE("a kernel that loses an element" * doctest::should_fail()) {
  Operator o = run_operator();
  o.got.out.bits()[64 + 5] ^= 0x4000;
  RINGFENCE_CHECK_TENSOR("lost", o.got.out, o.expected.out, o.expected.out_bound);
}

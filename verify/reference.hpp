// References of the fused part, fed with given partials; two of them.
//
// exact_*: the rounding-exact one. It gives bits, and its order of summation is a choice (policy).
// fused_reference: double precision by Eigen, with a bound for each element (verify/bounds.hpp).
//
// The partials are what the symmetric buffers hold after the product, so that a library's order of
// summation inside the product does not matter here. verify/product.hpp has that stage.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "verify/bounds.hpp"
#include "verify/inputs.hpp"
#include "verify/problem.hpp"
#include "verify/rows.hpp"
#include "verify/summation.hpp"

namespace ringfence::verify {

// Pointers to [T, H] patterns of the problem's dtype, one for each rank.
using Partials = std::vector<const void*>;

// The order in which ranks are added, for row `row` and 16-byte vector `vector` of it: writes a
// permutation of 0..ranks-1. The default is rank order.
using OrderOf = std::function<void(std::int64_t row, std::int64_t vector, int* order)>;

// Rows `rows` of out and residual_out, rounding by rounding. tokenweave sums by `policy`; pypto
// adds each part into a cleared tile in the given order (its policy is each_step whatever is
// asked). out and residual_out: rows.count() × H.
void exact_fused(const Problem& problem, const Inputs& inputs, const Partials& partials,
                 Summation policy, RowRange rows, void* out, void* residual_out,
                 const OrderOf& order = {}, const Rsqrt& rsqrt = {});

// out and residual_out as [T, H] tensors.
struct Outputs {
  Tensor out;
  Tensor residual_out;
};
Outputs exact_fused(const Problem& problem, const Inputs& inputs, const Partials& partials,
                    Summation policy, const OrderOf& order = {}, const Rsqrt& rsqrt = {});

// Rows in double precision, with bounds that hold for `policy` in any order.
FusedReference fused_reference(const Problem& problem, const Inputs& inputs,
                               const Partials& partials, Summation policy, RowRange rows);

// The whole operator from the inputs alone: partials in double, and their bound Δp_r carried on.
// For results whose partials are not at hand (diff).
FusedReference operator_reference(const Problem& problem, const Inputs& inputs, Summation policy,
                                  RowRange rows);

}  // namespace ringfence::verify

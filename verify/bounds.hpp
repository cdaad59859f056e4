// The bound of each element, derived from the rounding points and the magnitudes of the inputs. No
// bound reads the result under test.
//
// With u the dtype's unit roundoff (2^-8, 2^-11), γ_n = n·2^-24, p_r exact partials and Δp_r their
// error:
//
//   Δv   = Σ_r Δp_r + e + u|v|          e = γ_{R-1}·Σ|p_r|; ·u·Σ|p_r| for each_step; 0 for
//                                       exact_once; truncation doubles u in u|v|
//   Δz   = Δv + u|z|                    (pypto: z stays fp32, so 2^-24|z|; residual_out adds u|z|)
//   rel_s = Σ(2|z|Δz + Δz²) / (2H(mean + eps)) + γ_{H+4} + 2 ulp
//   Δout = |gamma|·s·(Δz + |z|·rel_s) + 2u|out| + the subnormal floor        (pypto: u|out|)
//
// The first term of rel_s is the first order of (1 - t)^(-1/2) - 1; the code takes the latter, and
// keeps second-order terms where they cost nothing, so that it is a bound and not an estimate.
// Infinities: where v overflows the dtype, or Σz² fp32, they are carried as the kernel has them;
// where the bound reaches the threshold either answer is right and the bound is infinite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verify/problem.hpp"
#include "verify/summation.hpp"

namespace ringfence::verify {

// Expected values and their bounds, rows × H each.
struct FusedReference {
  std::vector<double> out;
  std::vector<double> out_bound;
  std::vector<double> residual_out;
  std::vector<double> residual_out_bound;
};

// One row. `sum`: Σ_r p_r; `magnitude`: Σ_r |p_r|; `error`: Σ_r Δp_r, null where the partials are
// exact. residual, gamma, beta (null for none): the row's values. All pointers are to `hidden`
// doubles. Writes the four results.
struct BoundRow {
  const double* sum;
  const double* magnitude;
  const double* error;
  const double* residual;
  const double* gamma;
  const double* beta;
  double* out;
  double* out_bound;
  double* residual_out;
  double* residual_out_bound;
  bool gamma_is_wide = false;  // it is fp32 beside 16-bit data
};
void bound_row(const Problem& problem, Summation policy, const BoundRow& row);

}  // namespace ringfence::verify

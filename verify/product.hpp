// The matrix product of one rank: partial_r = x_r · weight_rᵀ.
#pragma once

#include <cstdint>
#include <vector>

#include "verify/inputs.hpp"
#include "verify/problem.hpp"

namespace ringfence::verify {

// As a kernel has it: fp32 accumulation (in Eigen's order, which is not ours to know for a library
// either) and one rounding to the dtype. `partial`: rows.count() × H patterns, row-major.
void product(const Problem& problem, const Inputs& inputs, int rank, RowRange rows,
             std::byte* partial);
void product(const Problem& problem, const Inputs& inputs, int rank, RowRange rows,
             std::uint16_t* partial);

// All rows as a [T, H] tensor.
Tensor product(const Problem& problem, const Inputs& inputs, int rank);

// Rows of the product in double precision with Δp_r, the bound of a result that accumulates in fp32
// in any order (with tiles: in any order within one) and rounds once to the dtype:
//   Δp_r = γ_{K/R}·Σ_k|x·w| + u·|p_r| + the subnormal floor,       γ_n = n·2^-24
struct ProductReference {
  std::vector<double> value;  // rows.count() × H
  std::vector<double> bound;
};
ProductReference product_reference(const Problem& problem, const Inputs& inputs, int rank,
                                   RowRange rows);

}  // namespace ringfence::verify

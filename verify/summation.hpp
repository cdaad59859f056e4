// How the partial results of R ranks become one 16-bit value: the policies.
//
// The PTX manual fixes neither order nor precision of multimem.ld_reduce, and public reports
// disagree about what NVSwitch does; concurrent atomic adds arrive in any order. A protocol has to
// hold under each of these. Functions here take raw pointers to patterns (Bits: as in
// verify/rows.hpp), allocate nothing and throw nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "verify/dtype.hpp"
#include "verify/problem.hpp"

namespace ringfence::verify {

enum class Summation : std::uint8_t {
  fp32_rank_order,   // ((p0 + p1) + p2) + ... in fp32, then one rounding to the dtype
  fp32_given_order,  // the same in a given order of the ranks
  exact_once,        // the exact sum, rounded once
  each_step,         // as above in a given order, but rounded to the dtype after each addition
  fp32_truncated,    // fp32 in a given order, then truncated towards zero
};

// "rank-order", "seeded-order", "exact", "each-step", "truncate": values of --policy summation=.
const char* summation_name(Summation policy);
Summation parse_summation(const std::string& name);  // throws InputError

// Sums `ranks` (1..kMaxRanks) rows of `count` elements of bf16, f16 or f32: sum[i] = Σ_r
// parts[r][i].
// `order`: a permutation of 0..ranks-1 by which the additions run, null for rank order; ignored by
// fp32_rank_order and exact_once. The first addend is taken as it is (nothing is added to 0).
// `sum` may be one of the parts.
template <typename Bits>
void reduce_vector(Summation policy, Dtype dtype, const Bits* const* parts, int ranks,
                   const int* order, std::size_t count, std::type_identity_t<Bits>* sum) noexcept;

// One put with atomic add: tile[i] = dtype(tile[i] + part[i]). A tile that was cleared holds +0, so
// pypto's sum is this repeated in the order of arrival.
template <typename Bits>
void atomic_add(Dtype dtype, const Bits* part, std::size_t count, Bits* tile) noexcept;

}  // namespace ringfence::verify

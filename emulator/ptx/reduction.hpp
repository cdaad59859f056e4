#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "emulator/ptx/memory.hpp"

namespace ringfence::ptx {

/// How multimem.ld_reduce sums floating-point replicas. The manual fixes neither order nor
/// rounding, and reports from the field disagree, so a kernel has to hold under each.
enum class SumPolicy : std::uint8_t {
  rank_order,     ///< in f32, rank 0 first; rounded to the type at the end
  seeded_order,   ///< the same in an order drawn from the seed
  exact,          ///< the exact sum, rounded once
  element_steps,  ///< rounded to the element's type at each step, in rank order
  truncated,      ///< in f32 in rank order, then cut to the type towards zero
};
constexpr SumPolicy kSumPolicies[] = {SumPolicy::rank_order, SumPolicy::seeded_order,
                                      SumPolicy::exact, SumPolicy::element_steps,
                                      SumPolicy::truncated};
std::string_view name_of(SumPolicy policy);
std::optional<SumPolicy> sum_policy_of(std::string_view name);

/// Combines one element's replicas, `replicas[r]` from rank r, bits in the low end; a packed pair
/// is two 16-bit elements. Without .acc::f32 the manual makes the element's type the intermediate
/// precision, so rank_order and seeded_order then round at each step. `seed` only matters for
/// seeded_order: the same seed gives the same order. At most 64 replicas.
std::uint64_t reduce_replicas(const Access& access, SumPolicy policy, std::uint64_t seed,
                              std::span<const std::uint64_t> replicas);

/// The same for the 32 lanes of a 32-bit element: replicas[r][lane] -> out[lane].
void reduce_replica_lanes(const Access& access, SumPolicy policy, std::uint64_t seed,
                          std::span<const std::uint32_t* const> replicas, std::uint32_t* out);

}  // namespace ringfence::ptx

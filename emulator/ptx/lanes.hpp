#pragma once

// Masks of a warp's lanes: bit i is lane i.

#include <bit>
#include <cstdint>

namespace ringfence::ptx {

/// 32 where the mask is empty.
inline std::uint32_t first_lane(std::uint32_t mask) {
  return static_cast<std::uint32_t>(std::countr_zero(mask));
}

/// f(lane) for each lane of the mask, from the lowest on.
template <class F>
void each_lane(std::uint32_t mask, F f) {
  if (mask == 0xFFFFFFFFU) {  // a loop of known length, which compilers do better with
    for (std::uint32_t lane = 0; lane < 32; ++lane) f(lane);
    return;
  }
  for (; mask != 0; mask &= mask - 1) f(first_lane(mask));
}

}  // namespace ringfence::ptx

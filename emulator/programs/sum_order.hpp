#pragma once
// Orders in which R addends may be summed, as numbers: what a strategy chooses among.

#include <array>
#include <cstdint>

#include "verify/problem.hpp"

namespace ringfence::programs {

inline constexpr std::uint32_t kMaxPermuted = 8;

// All permutations up to 8 ranks; beyond that the rotations of both directions.
constexpr std::uint32_t sum_orders(std::uint32_t ranks) {
  if (ranks > kMaxPermuted) return 2 * ranks;
  std::uint32_t n = 1;
  for (std::uint32_t i = 2; i <= ranks; ++i) n *= i;
  return n;
}

// The order of that number, from 0 (rank order) to sum_orders - 1.
inline void sum_order_at(std::uint32_t index, std::uint32_t ranks, int* order) {
  if (ranks > kMaxPermuted) {
    const std::uint32_t first = index % ranks;
    for (std::uint32_t i = 0; i < ranks; ++i) {
      order[i] = static_cast<int>((first + (index < ranks ? i : ranks - i)) % ranks);
    }
    return;
  }
  std::array<int, kMaxPermuted> left{};
  for (std::uint32_t i = 0; i < ranks; ++i) left[i] = static_cast<int>(i);
  std::uint32_t radix = sum_orders(ranks);
  for (std::uint32_t i = 0; i < ranks; ++i) {
    radix /= ranks - i;
    const std::uint32_t digit = index / radix;
    index %= radix;
    order[i] = left[digit];
    for (std::uint32_t j = digit; j + 1 < ranks - i; ++j) left[j] = left[j + 1];
  }
}

}  // namespace ringfence::programs

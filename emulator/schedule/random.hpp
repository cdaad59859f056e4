#pragma once
// The one generator of all strategies, with range reductions of its own: the distributions of the
// standard library differ between implementations, and a seed has to give the same run everywhere.

#include <cstdint>

namespace ringfence::schedule {

constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// SplitMix64: a counter and a mixing function (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) : state_(mix64(seed + 0x9e3779b97f4a7c15u)) {}

  constexpr std::uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15u); }
  // In 0 .. n-1; n > 0.
  constexpr std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((next() >> 32) * n >> 32);
  }
  // True with probability threshold / 2^32.
  constexpr bool chance(std::uint64_t threshold) { return next() >> 32 < threshold; }

 private:
  std::uint64_t state_;
};

// The threshold for Random::chance that gives probability `p`.
constexpr std::uint64_t threshold(double p) {
  return p <= 0   ? 0
         : p >= 1 ? std::uint64_t{1} << 32
                  : static_cast<std::uint64_t>(p * 4294967296.0);
}

}  // namespace ringfence::schedule

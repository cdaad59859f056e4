// Random numbers that are the same everywhere: a seed names a program for good.
#pragma once

#include <cstdint>

namespace ringfence::axiomatic {

// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // 0 <= result < bound, each equally likely but for less than bound / 2^32. bound > 0.
  int below(int bound) {
    return static_cast<int>(((next() >> 32) * static_cast<std::uint64_t>(bound)) >> 32);
  }
  // first <= result <= last
  int between(int first, int last) { return first + below(last - first + 1); }
  bool percent(int chance) { return below(100) < chance; }

 private:
  std::uint64_t state_;
};

}  // namespace ringfence::axiomatic

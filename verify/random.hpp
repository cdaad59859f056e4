// Counter-based random numbers: a value is a function of (key, counter), without state.
//
// Every element of a generated tensor can so be made alone, by any rank, in any order. Range
// reduction and the normal distribution are written here because those of the standard library
// differ between implementations, and a seed has to mean the same everywhere.
#pragma once

#include <cstdint>

namespace ringfence::verify {

// A bijection of 64 bits in which each input bit flips each output bit with probability near 1/2:
// xor-shift and multiply, twice (Stafford's variant 13 of the MurmurHash3 finalizer).
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class CounterRandom {
 public:
  // Streams whose seed, call or name differ are unrelated.
  constexpr CounterRandom(std::uint64_t seed, std::uint64_t call, std::uint64_t stream)
      : key_(mix_bits(mix_bits(mix_bits(seed + kStep) + call + kStep) + stream + kStep)) {}

  constexpr std::uint64_t bits(std::uint64_t counter) const {
    return mix_bits(key_ + (counter + 1) * kStep);
  }

  // Near enough uniform in 0..bound-1 for bounds far below 2^32: the high half of a product.
  static constexpr std::uint32_t below(std::uint32_t random, std::uint32_t bound) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(random) * bound >> 32);
  }

  // Mean 0, variance 1: the sum of eight uniform 16-bit numbers, so no tail beyond 4.9. Integer
  // arithmetic and one division: the same on every machine.
  float normal(std::uint64_t counter) const {
    std::int32_t sum = 0;
    for (int half = 0; half < 2; ++half) {
      std::uint64_t word = bits(2 * counter + static_cast<std::uint64_t>(half));
      for (int i = 0; i < 4; ++i, word >>= 16) sum += static_cast<std::int32_t>(word & 0xffffu);
    }
    // Mean 8·32767.5; standard deviation sqrt(8/12)·65536.
    return static_cast<float>(sum - 262140) / 53509.92f;
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio, odd
  std::uint64_t key_;
};

}  // namespace ringfence::verify

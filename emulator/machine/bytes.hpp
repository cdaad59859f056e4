#pragma once
// Internal to the machine: the bytes of cells and of spans.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "emulator/machine/location.hpp"

namespace ringfence::machine {

template <class T>
std::uint64_t load_as(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// The first 8 bytes at most.
inline std::uint64_t load(const std::byte* p, std::uint32_t bytes) {
  switch (bytes) {
    case 1:
      return load_as<std::uint8_t>(p);
    case 2:
      return load_as<std::uint16_t>(p);
    case 4:
      return load_as<std::uint32_t>(p);
    default:
      return load_as<std::uint64_t>(p);
  }
}

// Bytes of a cell or a part of one, without a call for the usual sizes.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  switch (bytes) {
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    case kLineBytes:
      std::memcpy(to, from, kLineBytes);
      break;
    default:
      std::memcpy(to, from, bytes);
  }
}

// A block's values. By parts: all of it at once is a string instruction, which takes long to begin.
inline void copy_block(std::byte* to, const std::byte* from) {
  constexpr std::size_t kPart = 64;
  for (std::size_t i = 0; i < kBlockBytes; i += kPart) std::memcpy(to + i, from + i, kPart);
}

inline void store(std::byte* p, std::uint64_t v, std::uint32_t bytes) {
  copy_bytes(p, reinterpret_cast<const std::byte*>(&v), std::min<std::uint32_t>(bytes, sizeof v));
}

inline std::uint16_t all_of(const Cell& cell) {
  return static_cast<std::uint16_t>((1u << cell.size) - 1);
}

inline bool several(MessageSet set) { return (set & (set - 1)) != 0; }

// Covers a span by `block(at)` where that takes a whole block, and by `part(at, bytes)` elsewhere.
template <class Part, class Whole>
void by_blocks(std::uint64_t offset, std::uint64_t bytes, const Part& part, const Whole& block) {
  for (std::uint64_t at = 0; at < bytes;) {
    const std::uint64_t into = (offset + at) % kBlockBytes;
    const std::uint64_t n = std::min(bytes - at, kBlockBytes - into);
    if (n < kBlockBytes || !block(at)) part(at, n);
    at += n;
  }
}

}  // namespace ringfence::machine

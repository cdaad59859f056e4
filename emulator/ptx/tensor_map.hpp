#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "emulator/ptx/types.hpp"

namespace ringfence::ptx {

/// How 16-byte pieces are permuted in shared memory: in every 128, 256, 512 or 1024 bytes the piece
/// number is xored with the number of the 128-byte line, so many bits of both.
enum class Swizzle : std::uint8_t { none, bytes32, bytes64, bytes128 };

/// Bytes of a row that the permutation keeps together; 16 for none.
constexpr std::uint32_t swizzle_span(Swizzle swizzle) {
  return 16U << static_cast<unsigned>(swizzle);
}
constexpr std::uint64_t swizzled(std::uint64_t address, Swizzle swizzle) {
  const std::uint64_t bits = (1ULL << static_cast<unsigned>(swizzle)) - 1;
  return address ^ (address >> 7 & bits) << 4;
}

/// What a tensor map (CUtensorMap, tiled) says, innermost dimension first. Its 128 bytes are opaque
/// on a GPU and made by the driver; these are ours.
struct TensorMap {
  static constexpr std::size_t kBytes = 128;
  static constexpr unsigned kMostDimensions = 5;

  std::uint64_t address = 0;
  Type type = Type::none;  ///< of an element, for reductions
  std::uint8_t element_bytes = 2;
  std::uint8_t dimensions = 1;
  Swizzle swizzle = Swizzle::none;
  std::array<std::uint64_t, kMostDimensions> size{};    ///< elements
  std::array<std::uint64_t, kMostDimensions> stride{};  ///< bytes; [0] is an element's
  std::array<std::uint32_t, kMostDimensions> box{};     ///< elements

  std::uint64_t row_bytes() const { return std::uint64_t{box[0]} * element_bytes; }
  std::uint64_t box_bytes() const;
  /// What cuTensorMapEncodeTiled would refuse, in a few words; empty if it would take it.
  std::string fault() const;

  std::array<std::uint8_t, kBytes> encode() const;
  /// Nothing where the bytes are none of encode()'s.
  static std::optional<TensorMap> decode(std::span<const std::byte, kBytes> bytes);
};

}  // namespace ringfence::ptx

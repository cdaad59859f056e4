#pragma once

#include <cstdint>

namespace ringfence::ptx {

/// Where an op finds an operand: byte offset in one of two banks, the warp's registers (0) or the
/// launch's constants (1), the bank in the lowest bit. A value of up to 32 bits takes 32 lanes of 4
/// bytes (narrow types zero-extended), a 64-bit value 32 lanes of 8, a predicate one 32-bit mask.
struct Slot {
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  std::uint32_t raw = kNone;

  static Slot reg(std::uint32_t offset) { return {offset << 1}; }
  static Slot constant(std::uint32_t offset) { return {(offset << 1) | 1}; }
  explicit operator bool() const { return raw != kNone; }
  bool is_constant() const { return (raw & 1) != 0; }
  std::uint32_t offset() const { return raw >> 1; }
  bool operator==(const Slot&) const = default;
};

}  // namespace ringfence::ptx

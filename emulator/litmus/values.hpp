#pragma once
// What a litmus test's values and names mean to the machine: a register holds 64 bits, a cell the
// bits of its type.

#include <cstddef>
#include <cstdint>

#include "emulator/litmus/ast.hpp"
#include "emulator/machine/access.hpp"

namespace ringfence::litmus {

inline std::uint64_t bits_of(std::int64_t v) { return static_cast<std::uint64_t>(v); }
inline std::int64_t signed_of(std::uint64_t v) { return static_cast<std::int64_t>(v); }

// The bits that a cell of `type` has.
inline std::uint64_t mask_of(Type type) {
  return type.bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << type.bits) - 1;
}
// A cell's bits as a register holds them: extended by `type`'s sign.
std::int64_t extended(std::uint64_t v, Type type);

std::int64_t apply(LocalOp op, std::int64_t a, std::int64_t b);
bool compare(std::int64_t a, Compare c, std::int64_t b);

// Where a thread runs. A cta without a cluster is in none.
machine::Placement placement(const Thread& thread);

// What an atomic on a cell of `type` makes of the old bits and the operand's.
machine::CombineFunction combine(Combine op, Type type);

}  // namespace ringfence::litmus

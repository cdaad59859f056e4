#pragma once

#include <cstdint>

#include "emulator/ptx/memory.hpp"

namespace ringfence::ptx {

/// The new value of an atomic operation on one element. Values stand in the low bits; packed types
/// combine each half. bf16 and f16 add with nearest-even rounding and subnormals kept (.noftz);
/// `flush` is the rule for f32 in global memory, where subnormal operands and results become zero.
std::uint64_t apply_atomic(Combine combine, Type type, bool flush, std::uint64_t old,
                           std::uint64_t operand, std::uint64_t compare = 0);

/// One lane of atom.exch or atom.cas of 16 bytes on plain bytes; false: the comparison failed.
bool exchange_whole(Request& request, std::uint32_t lane, std::byte* at);

/// Whether atom and red have the operation for elements of the type.
bool may_combine(Combine combine, Type type);

/// True where the result differs between orders of application (floating-point add).
bool order_matters(Combine combine, Type type);

}  // namespace ringfence::ptx

#pragma once

#include "emulator/ptx/module.hpp"

namespace ringfence::ptx {

/// True where the function declares registers of 128 bits.
bool has_wide_registers(const Function& function);

/// Puts two registers of 64 bits in place of each of 128: {low, high} where it is an operand, and
/// two moves for one. The executor has none that are wider.
void split_wide_registers(Function& function);

}  // namespace ringfence::ptx

#pragma once

#include <vector>

#include "emulator/ptx/flow.hpp"
#include "emulator/ptx/program.hpp"

namespace ringfence::ptx {

/// Replaces the register numbers in every slot by places in a warp's register file. Registers that
/// are never live together share a place: compilers declare one register a value, ten times what is
/// live at once, and a small file keeps a warp in the first cache. 64-bit, 32-bit and predicate
/// registers have regions of their own. `types` is indexed by register number.
void allocate_registers(Program& program, const Flow& flow, const std::vector<Type>& types);

}  // namespace ringfence::ptx

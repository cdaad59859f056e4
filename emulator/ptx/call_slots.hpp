#pragma once

#include "emulator/ptx/module.hpp"

namespace ringfence::ptx {

/// Puts registers in place of the .param variables of calls where each is written and read by whole
/// parts, as compilers do. Local memory would do as well, but a loop that writes it has an effect,
/// and so would never be one that waits.
void slots_to_registers(Function& function);

/// Where each label leads when what stood at place i now starts at place moved[i].
void move_labels(Function& function, const std::vector<std::uint32_t>& moved);

}  // namespace ringfence::ptx

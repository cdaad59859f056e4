#pragma once

#include "emulator/ptx/cursor.hpp"
#include "emulator/ptx/module.hpp"

namespace ringfence::ptx {

/// Reads what follows a state space in a variable's or parameter's declaration: alignment, type,
/// name, array bounds and initial value, up to but without the ',' ';' or ')'.
/// Sizes above 1 GiB are an error: no device has such a variable and a typing slip would cost
/// memory.
Variable parse_variable(Cursor& cursor, Space space, bool external);

}  // namespace ringfence::ptx

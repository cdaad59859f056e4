#pragma once

#include <string>
#include <string_view>

#include "emulator/ptx/module.hpp"

namespace ringfence::ptx {

/// Reads PTX ISA 6.0 to 9.0 text as nvcc and Triton emit it. `file` names it in messages.
/// An opcode or modifier that the executor does not know is no error here (see decode).
/// Throws Error for a malformed statement, an unknown name, a label without a place, and for a text
/// that holds no function body (a file that was cut off), unless it `may_be_empty`: one of several
/// modules, which may hold variables alone.
Module parse(std::string text, std::string file, bool may_be_empty = false);

}  // namespace ringfence::ptx

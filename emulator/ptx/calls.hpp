#pragma once

#include "emulator/ptx/module.hpp"

namespace ringfence::ptx {

/// Calls of one function inside another that are followed; a deeper one ends the kernel by a fault
/// that names the function.
inline constexpr std::uint32_t kDeepestRecursion = 64;

/// Opcodes of what stands where a call leads nowhere; no text can have them. Operand 0 is the
/// function.
inline constexpr std::string_view kTooDeep = "(recursion)";
inline constexpr std::string_view kNoTarget = "(no target)";

/// True where the kernel calls a function whose body the module has, or one by its address.
bool has_calls(const Function& kernel, const Module& module);

/// The kernel with the functions that it calls put where they are called, so that its text alone
/// says what a thread does: loops that wait in a function are seen as such, and each instruction
/// keeps the line, and the file, that it stands in. A function that may call itself is there once
/// for each depth; a call by an address is a choice among the functions that fit. What is handed
/// over in .param variables goes through registers. Functions without a body stay calls. Throws
/// Error.
Function with_functions(const Module& module, const Function& kernel);

}  // namespace ringfence::ptx

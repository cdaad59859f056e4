#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/execution.hpp"
#include "emulator/ptx/program.hpp"

namespace ringfence::ptx {

/// What an address was computed from, as the text tells: for people, where an access went astray.
struct Origin {
  std::vector<std::uint64_t> addresses;  ///< parameters of 64 bits, and variables in global memory
  bool loaded = false;                   ///< something in it was read from memory, too
};

/// Of the n-th operand [address] of an instruction.
Origin origin_of(const Program& program, const LaunchConfig& config, std::uint32_t instruction,
                 unsigned n);

}  // namespace ringfence::ptx

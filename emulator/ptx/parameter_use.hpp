#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/module.hpp"

namespace ringfence::ptx {

/// A part of a parameter that a kernel loads, and what it seems to be: guessed from where the value
/// goes, through moves, sums and conversions of addresses, whatever the order of the instructions.
struct ParameterUse {
  std::uint64_t offset = 0;
  Type type = Type::b32;      ///< as it is loaded
  bool address = false;       ///< memory is accessed there
  bool multicast = false;     ///< by multimem
  bool of_addresses = false;  ///< what is loaded from there is an address itself
  bool indexed = false;       ///< it lies in local memory with others, to be chosen by a number
};

/// Of each parameter, by offset; parts that overlap an earlier one are left out. Empty where the
/// kernel loads nothing of it by a fixed offset.
std::vector<std::vector<ParameterUse>> parameter_uses(const Function& kernel);

}  // namespace ringfence::ptx

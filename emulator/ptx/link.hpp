#pragma once

#include <vector>

#include "emulator/ptx/module.hpp"

namespace ringfence::ptx {

/// One module of several, as nvlink makes of what nvcc -rdc=true compiled: an external name of one
/// is the definition of another; names that no linkage makes visible stay apart; of several weak
/// definitions the first counts. Throws Error where two modules define a visible name.
Module link(std::vector<Module> modules);

/// Of modules that are linked, `roots` and those that define what these name, and so on.
std::vector<bool> with_what_they_name(const std::vector<Module>& modules, std::vector<bool> roots);

}  // namespace ringfence::ptx

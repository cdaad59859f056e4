#pragma once
// Inputs of a protocol that come from a file.

#include <string>
#include <vector>

#include "emulator/programs/config.hpp"

namespace ringfence::analysis {

// The sizes and the dtype of the file `config.input`, in place of the configuration's. Returns what
// whoever gave the file should be told, a line each. Throws InputError, or what `describe` knows.
std::vector<std::string> adopt_input(programs::Config& config);

}  // namespace ringfence::analysis

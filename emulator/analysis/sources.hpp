#pragma once
// Where the files lie that a case's lines are of.

#include <string>
#include <vector>

#include "emulator/trace/configuration.hpp"

namespace ringfence::analysis {

// The folders of the case and of its kernels, and the current one; of a case that is no longer
// there, those that are known.
std::vector<std::string> source_folders(const trace::Configuration& config);

}  // namespace ringfence::analysis

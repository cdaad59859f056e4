#pragma once
// What this binary was built from.

#include <string>

namespace ringfence::analysis {

std::string version();    // "0.1.0 (1a2b3c4d5e)"
std::string toolchain();  // "GNU 12.2.0, Release"

}  // namespace ringfence::analysis

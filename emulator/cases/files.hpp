#pragma once
// The files that a case names.

#include <string>
#include <vector>

#include "emulator/cases/case_file.hpp"

namespace ringfence::cases {

// Their paths as `beside` gives them: modules, contents, expected values. Whether they are there is
// not looked at.
std::vector<std::string> files_of(const CaseFile& file);

}  // namespace ringfence::cases

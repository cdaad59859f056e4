#pragma once
// The file of `check --resume`: what the searches of the boundary modes left.

#include <map>
#include <string>

#include "emulator/check/resume.hpp"
#include "emulator/machine/policy.hpp"

namespace ringfence::cli {

using LeftByMode = std::map<machine::Boundary, check::Left>;

// Empty if there is no such file. `what` is the case and its policies in one line: a file of
// another case is refused. Throws UsageError.
LeftByMode read_resume(const std::string& path, const std::string& what);
// Replaces the file as a whole.
void write_resume(const std::string& path, const std::string& what, const LeftByMode& left);

}  // namespace ringfence::cli

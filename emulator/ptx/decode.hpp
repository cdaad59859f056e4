#pragma once

#include <string>
#include <vector>

#include "emulator/ptx/program.hpp"

namespace ringfence::ptx {

/// An instruction that the executor refuses.
struct Unsupported {
  std::uint32_t line = 0;
  std::string reason;
  std::string statement;
  std::string file;
};

/// Decodes one kernel; the module must outlive the program. Throws Error, naming line and text, at
/// the first statement that is malformed or unsupported.
Program decode(const Module& module, const Function& kernel);

/// Every statement of a kernel that decode() would refuse.
std::vector<Unsupported> unsupported_forms(const Module& module, const Function& kernel);

}  // namespace ringfence::ptx

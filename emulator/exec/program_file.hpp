#pragma once
// What a program is linked with, as far as it decides whether `ringfence exec` can run it.

#include <string>
#include <vector>

namespace ringfence::exec {

struct ProgramFile {
  bool elf = false;                    // else a script, which is left alone
  bool kernels = false;                // nvcc's sections are in it
  std::vector<std::string> libraries;  // DT_NEEDED
};

ProgramFile read_program(const std::string& path);

// Why the program cannot run under exec, and what would be right; empty: nothing is known of that.
std::string why_not(const std::string& path, const ProgramFile& program);

// What the name means to execvp; empty: nothing.
std::string find_program(const std::string& name);

}  // namespace ringfence::exec

#pragma once
// A program under `ringfence exec`, from its start to its end.

#include <string>
#include <vector>

#include "emulator/exec/engine.hpp"

namespace ringfence::exec {

struct Session {
  std::vector<std::string> command;
  std::string library;  // the folder of the stand-in for libcudart
  EngineOptions engine;
};

struct Ended {
  int status = 0;  // as waitpid gives it
  Summary summary;
};

// The folder of the stand-in: beside this program in the build, or where both were installed.
// Empty: there is none.
std::string library_folder();

// Throws analysis::InputError where the program cannot be run.
Ended run(const Session& session);

}  // namespace ringfence::exec

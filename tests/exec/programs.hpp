#pragma once
// CUDA programs of ours under `ringfence exec`, as tests run them.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tests/cli/command.hpp"
#include "tests/support/says.hpp"

#ifndef RINGFENCE_EXEC_PROGRAMS
#error "RINGFENCE_EXEC_PROGRAMS: the folder of the programs, see CMakeLists.txt here"
#endif

namespace ringfence::cli {

inline std::string program(const std::string& name) {
  return std::string(RINGFENCE_EXEC_PROGRAMS) + "/" + name;
}

// Whether the build made the programs; where it could it has to.
inline bool made(const std::string& name) {
  if (std::filesystem::exists(program(name))) return true;
#ifdef RINGFENCE_MAKES_PROGRAMS
  FAIL("the build has not made ", program(name));
#else
  MESSAGE("not run: no nvcc of CUDA 13 to compile ", name, ".cu");
#endif
  return false;
}

// `command`: a program of ours and its arguments.
inline Result exec(const Folder& folder, const std::string& command,
                   const std::string& options = "") {
  return ringfence(
      folder, "exec " + options + " -- " + std::string(RINGFENCE_EXEC_PROGRAMS) + "/" + command);
}

inline void right(const Folder& folder, const std::string& command, const std::string& said,
                  const std::string& options = "") {
  const Result r = exec(folder, command, options);
  CAPTURE(command);
  CAPTURE(r.err);
  CAPTURE(r.out);
  CHECK(r.status == 0);
  CHECK(says(r.out, said));
  CHECK(!says(r.err, "FINDING"));
}

inline void found(const Folder& folder, const std::string& command, const std::string& kind,
                  const std::string& options = "") {
  const Result r = exec(folder, command, options);
  CAPTURE(command);
  CAPTURE(r.err);
  CAPTURE(r.out);
  CHECK(r.status == 1);
  CHECK(says(r.err, "FINDING: " + kind));
}

}  // namespace ringfence::cli

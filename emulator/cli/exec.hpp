#pragma once
// exec: a CUDA program as it is, on emulated GPUs; and nvcc, which compiles it for that.

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/cli/errors.hpp"

namespace ringfence::cli {

struct ExecOptions {
  std::vector<std::string> command;
  std::uint32_t gpus = 4;
  std::uint64_t seed = 0;
  std::uint64_t schedules = 0;  // of the program, besides the first
  std::uint64_t explore = 0;    // of each stretch
  std::string boundary = "stream";
  std::vector<std::string> policy, ignore;
  std::uint32_t registers = 0;
  std::string capture;
  std::string device_profile;
  std::string executor = "inline";
  std::string host_accesses = "on";
};

// The program's own exit status, or what of it is a finding. Throws UsageError or what `describe`
// knows.
int run(const ExecOptions& options);

// The arguments behind `ringfence nvcc`. Does not return where nvcc could be started.
Exit nvcc(const std::vector<std::string>& arguments);
// What it would be called with.
std::vector<std::string> nvcc_arguments(const std::vector<std::string>& arguments);

}  // namespace ringfence::cli

#pragma once
// litmus: PTX litmus tests, every execution of each, and what was expected.

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/cli/errors.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/litmus/run.hpp"

namespace ringfence::cli {

struct LitmusOptions {
  std::vector<std::string> files;
  std::string expect;
  std::string ask = "condition";  // or termination
  std::string boundary = "strict";
  std::vector<std::string> policy;
  ReportOptions reports;
  int bound = litmus::LitmusProgram::kBound;
  std::uint64_t executions = 0;
  double seconds = 0;
  unsigned jobs = 1;
};

// Throws UsageError or what `describe` knows.
Exit run(const LitmusOptions& options);

}  // namespace ringfence::cli

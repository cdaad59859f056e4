#pragma once
// check: every execution of a case within bounds, in each boundary mode.

#include <cstdint>
#include <string>

#include "emulator/cli/case_options.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct CheckOptions {
  CaseOptions c;
  ExecutorOptions executor;
  ReportOptions reports;
  std::uint64_t executions = 0;
  double seconds = 0;
  unsigned jobs = 1;
  std::string arrivals = "set";
  std::string trace, resume;
  bool shrink = true, remedies = true;
  double remedy_seconds = 2;
};

// Throws UsageError or what `describe` knows.
Exit run(const CheckOptions& options);

}  // namespace ringfence::cli

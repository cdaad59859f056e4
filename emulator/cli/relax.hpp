#pragma once
// relax: which orders, scopes, fences and barriers are needed, and how strong.

#include <cstdint>
#include <string>

#include "emulator/cli/case_options.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct RelaxOptions {
  CaseOptions c;
  ReportOptions reports;
  std::uint64_t executions = 20000;
  double seconds = 0;  // of the whole; 0: no limit
  double variant_seconds = 5;
  std::uint64_t schedules = 300;
  unsigned jobs = 1;
  std::string traces;  // a folder
};

// Throws UsageError or what `describe` knows.
Exit run(const RelaxOptions& options);

}  // namespace ringfence::cli

#pragma once
// ptx: what a PTX file holds, and what of it the executor does not support.

#include <string>
#include <vector>

#include "emulator/cli/errors.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct PtxOptions {
  std::string file;
  std::vector<std::string> case_template;  // kernels
  ReportOptions reports;
};

// Throws UsageError or what `describe` knows.
Exit run(const PtxOptions& options);

}  // namespace ringfence::cli

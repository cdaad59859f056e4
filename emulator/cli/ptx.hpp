#pragma once
// ptx: what a PTX file holds, and what of it the executor does not support.

#include <string>

#include "emulator/cli/errors.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct PtxOptions {
  std::string file, case_template;
  ReportOptions reports;
};

// Throws UsageError or what `describe` knows.
Exit run(const PtxOptions& options);

}  // namespace ringfence::cli

#pragma once
// run: the operator on rank processes that run freely, compared with the reference.

#include <string>

#include "emulator/analysis/pictures.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct RunOptions {
  CaseOptions c;
  ExecutorOptions executor;
  ReportOptions reports;
  std::string numbers;  // file
  PictureOptions pictures;
  std::string output;
};

// Throws UsageError or what `describe` knows.
Exit run(const RunOptions& options);

}  // namespace ringfence::cli

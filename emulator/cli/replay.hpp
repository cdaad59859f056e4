#pragma once
// replay: a recorded run once more, bit for bit, and its story.

#include <string>

#include "emulator/analysis/pictures.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct ReplayOptions {
  std::string file;
  bool steps = false, remedies = true;
  double remedy_seconds = 2;
  ExecutorOptions executor;
  ReportOptions reports;
  PictureOptions pictures;
};

// Throws UsageError or what `describe` knows.
Exit run(const ReplayOptions& options);

}  // namespace ringfence::cli

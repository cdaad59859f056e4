#pragma once
// merge: adds up the results of a campaign's shards, from any number of folders.

#include <string>
#include <vector>

#include "emulator/cli/errors.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct MergeOptions {
  std::vector<std::string> folders;
  ReportOptions reports;
};

// Throws UsageError or what `describe` knows.
Exit run(const MergeOptions& options);

}  // namespace ringfence::cli

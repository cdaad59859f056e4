#pragma once
// simulate: the operator in virtual time, by a profile of what operations cost.

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/cli/errors.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct SimulateOptions {
  std::string transports = "multimem,peer,put";
  std::string ranks = "8", tokens = "1024", blocks = "8", waves = "1";
  std::uint32_t hidden = 8192, inner = 0, gpus = 0;
  std::string profile = "h200", kernel = "ringfence";
  std::vector<std::string> set;
  std::string svg;
  ReportOptions reports;
};

// Throws UsageError or what `describe` knows.
Exit run(const SimulateOptions& options);

}  // namespace ringfence::cli

#pragma once
// fuzz: many schedules under weak memory, in each boundary mode until it finds something.

#include <cstdint>
#include <string>

#include "emulator/analysis/pictures.hpp"
#include "emulator/cli/campaign.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/options.hpp"
#include "emulator/cli/report.hpp"

namespace ringfence::cli {

struct FuzzOptions {
  CaseOptions c;
  ExecutorOptions executor;
  ReportOptions reports;
  PictureOptions pictures;
  CampaignOptions campaign;
  std::string strategy = "portfolio";
  std::uint32_t depth = 3;
  CLI::Option* depth_given = nullptr;
  double stale = 0.05;
  std::string corpus;
  std::uint64_t seed = 1;
  std::uint64_t schedules = 2000;
  CLI::Option* schedules_given = nullptr;
  CLI::Option* protocol_given = nullptr;
  double seconds = 0;
  unsigned jobs = 1;
  std::string trace;
  bool all = false;
  bool shrink = true, remedies = true;
  double remedy_seconds = 2;
  std::string faults;
  bool survive = false;
};

// Throws UsageError or what `describe` knows.
Exit run(const FuzzOptions& options);

}  // namespace ringfence::cli

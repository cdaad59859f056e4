#pragma once
// fuzz --campaign: many short searches (units), shared out over processes and machines that need
// not know of each other, resumed where they stopped, added up by merge.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emulator/analysis/finding.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/options.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::cli {

struct CampaignOptions {
  std::string folder;  // empty: no campaign
  std::string shard;
  std::uint64_t units = 100;
  CLI::Option* units_given = nullptr;
  std::vector<std::string> cases;  // unit n takes the n-th, round and round
  bool exhaustive = false;         // a unit is what check does with its case
  bool swarm = false;
  bool canary = false;
};

struct CampaignSearch {
  schedule::StrategySpec strategy;                        // its seed is the campaign's
  std::uint64_t schedules = 200;                          // of a unit in each mode
  std::uint64_t executions = 0;                           // at most, of an exhaustive one; 0: all
  double seconds = 0;                                     // 0: until all units are done
  std::optional<RecordOptions::Clock::time_point> until;  // set by run_campaign
  ExecutorOptions executor;
  unsigned jobs = 1;
  bool shrink = true;
  std::string corpus;          // folder; empty: none
  bool draw_protocol = false;  // swarm: the user named none
};

// `cases`: one at least.
Exit run_campaign(CampaignOptions options, const std::vector<Task>& cases, CampaignSearch search,
                  const ReportOptions& reports);

}  // namespace ringfence::cli

#include "emulator/cli/campaign.hpp"

#include <CLI/CLI.hpp>

#include "emulator/cli/options/shared.hpp"
#include "emulator/cli/options/validators.hpp"

namespace ringfence::cli {

void add_campaign_options(CLI::App& app, CampaignOptions& o) {
  const char* group = "Campaign";
  auto* folder = app.add_option("--campaign", o.folder,
                                "Run a campaign: many searches (units), each with a seed of its "
                                "own, whose results are appended to files in this folder; resumes "
                                "where it stopped; ringfence merge adds the results up")
                     ->group(group);
  o.units_given = app.add_option("--units", o.units,
                                 "Number of units of the whole campaign, each with --schedules per "
                                 "mode (with --exhaustive: one for each case)")
                      ->check(above_zero())
                      ->capture_default_str()
                      ->needs(folder)
                      ->group(group);
  app.add_option("--cases", o.cases,
                 "Several case files instead of --case: unit n searches case n modulo their number")
      ->needs(folder)
      ->group(group);
  app.add_flag("--exhaustive", o.exhaustive,
               "A unit runs check on its case instead of fuzz, with at most --schedules executions "
               "per mode if that is given")
      ->needs(folder)
      ->group(group);
  app.add_option("--shard", o.shard,
                 "I/N: run the I-th of N parts of the units (default: from TEST_SHARD_INDEX and "
                 "TEST_TOTAL_SHARDS, GTEST_..., SLURM_ARRAY_TASK_... or JOB_COMPLETION_INDEX)")
      ->needs(folder)
      ->group(group);
  app.add_flag("--swarm", o.swarm, "Each unit also draws its configuration, and prints it")
      ->needs(folder)
      ->group(group);
  app.add_flag("--canary", o.canary, "First search a case with a known bug, which must be found")
      ->needs(folder)
      ->group(group);
}

}  // namespace ringfence::cli

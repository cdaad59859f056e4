#include "emulator/cli/campaign.hpp"

#include <CLI/CLI.hpp>

#include "emulator/cli/options/shared.hpp"
#include "emulator/cli/options/validators.hpp"

namespace ringfence::cli {

void add_campaign_options(CLI::App& app, CampaignOptions& o) {
  const char* group = "Campaign";
  auto* folder = app.add_option("--campaign", o.folder,
                                "Folder of results: searches with seeds of their own (units), "
                                "appended as JSON Lines and resumed; ringfence merge adds them up")
                     ->group(group);
  o.units_given =
      app.add_option(
             "--units", o.units,
             "Searches of the whole campaign, each of --schedules a mode (with --exhaustive: "
             "one for each case)")
          ->check(above_zero())
          ->capture_default_str()
          ->needs(folder)
          ->group(group);
  app.add_option("--cases", o.cases,
                 "Case files in place of --case, several: unit n takes the n-th, round and round")
      ->needs(folder)
      ->group(group);
  app.add_flag(
         "--exhaustive", o.exhaustive,
         "A unit is what check does with its case, of at most --schedules executions a mode if "
         "that is given")
      ->needs(folder)
      ->group(group);
  app.add_option("--shard", o.shard,
                 "I/N, the I-th of N parts of the units (default: what TEST_SHARD_INDEX and "
                 "TEST_TOTAL_SHARDS, GTEST_..., SLURM_ARRAY_TASK_... or JOB_COMPLETION_INDEX say)")
      ->needs(folder)
      ->group(group);
  app.add_flag("--swarm", o.swarm, "Each unit draws its configuration too, and prints it")
      ->needs(folder)
      ->group(group);
  app.add_flag("--canary", o.canary, "First search a case with a known fault, which must be found")
      ->needs(folder)
      ->group(group);
}

}  // namespace ringfence::cli

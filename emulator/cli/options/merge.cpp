#include "emulator/cli/merge.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"

namespace ringfence::cli {

void add_merge(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<MergeOptions>();
  CLI::App* sub =
      app.add_subcommand("merge", "Adds up the results of a campaign (fuzz --campaign)");
  sub->footer(
      "Exit status: 0 all units ran and found nothing, 1 a finding, 2 bad usage or input, 3 units "
      "are missing or have no verdict.");
  sub->add_option("folders", o->folders, "Folders of results")->required();
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

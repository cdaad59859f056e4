#include "emulator/cli/replay.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"

namespace ringfence::cli {

void add_replay(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<ReplayOptions>();
  CLI::App* sub = app.add_subcommand("replay", "Runs a trace again and explains it");
  sub->footer(
      "Exit status: 0 the recorded clean run, 1 the recorded finding, 2 bad usage or input, 3 a "
      "rank's process was lost, 4 interrupted, 5 the run diverged from the recorded one.");
  sub->add_option("trace", o->file, "Trace file, or the token (rf1,...) that a finding printed")
      ->required();
  sub->add_flag("--steps", o->steps, "Print every step, not only the relevant ones");
  add_remedies_option(*sub, o->remedies, o->remedy_seconds);
  add_executor_options(*sub, o->executor);
  add_report_options(*sub, o->reports);
  add_sarif_option(*sub, o->reports);
  add_picture_options(*sub, o->pictures);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

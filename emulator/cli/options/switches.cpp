#include "emulator/cli/switches.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"

namespace ringfence::cli {

void add_switches(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<SwitchesOptions>();
  CLI::App* sub = app.add_subcommand(
      "switches",
      "Lists the switches of a protocol (--set): its orders and scopes, and what can be left out");
  sub->footer("Exit status: 0, or 2 for an unknown protocol.");
  sub->add_option("protocol", o->protocol, "A protocol (default: list the protocols)");
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

#include "emulator/cli/simulate.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"

namespace ringfence::cli {

void add_simulate(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<SimulateOptions>();
  CLI::App* sub = app.add_subcommand(
      "simulate", "Runs the operator in virtual time: how long it takes and where that goes");
  sub->footer(
      "LIST: numbers such as 8, 2,4,8 or 2..72 (doubling, and the last). The protocol's program is "
      "executed with all checks; a row is one vector of the run (docs/time.md).\n"
      "Exit status: 0 clean, 1 a finding (then there is no time), 2 bad usage or input, 4 "
      "interrupted.");
  sub->add_option("--transport", o->transports, "Some of multimem, peer (tokenweave), put (pypto)")
      ->capture_default_str();
  sub->add_option("--ranks", o->ranks, "LIST, up to 72")->capture_default_str();
  sub->add_option("--tokens", o->tokens, "LIST; padded to equal slices")->capture_default_str();
  sub->add_option("--blocks", o->blocks, "LIST: blocks a rank")->capture_default_str();
  sub->add_option(
         "--waves", o->waves,
         "LIST: parts of the tokens, the product of one beside the communication of another "
         "(put: its tiles); above 1 needs --inner")
      ->capture_default_str();
  sub->add_option("--hidden", o->hidden, "Elements of a row")->capture_default_str();
  sub->add_option("--inner", o->inner, "Inner size of a rank's product; 0: no product")
      ->capture_default_str();
  sub->add_option("--gpus", o->gpus, "GPUs; fewer than ranks: virtual ranks (default: --ranks)");
  sub->add_option("--kernel", o->kernel,
                  "ringfence: loads a row ahead; published: none ahead, the residual read twice")
      ->check(CLI::IsMember({"ringfence", "published"}))
      ->capture_default_str();
  sub->add_option("--profile", o->profile, "What operations cost: a TOML file, or h200")
      ->capture_default_str();
  sub->add_option("--set", o->set, "NAME=VALUE: a switch of the protocol, as in fuzz")
      ->allow_extra_args(false);
  sub->add_option("--svg", o->svg, "File for a plot")->group("Reports");
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

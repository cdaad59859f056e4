#include "emulator/cli/simulate.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"

namespace ringfence::cli {

void add_simulate(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<SimulateOptions>();
  CLI::App* sub = app.add_subcommand(
      "simulate",
      "Runs an operator in virtual time: predicts how long it takes and where the time goes");
  sub->footer(
      "LIST: numbers such as 8, 2,4,8 or 2..72 (doubling, up to and including the last). The "
      "protocol is executed with all checks; one vector stands for each row (docs/time.md).\nExit "
      "status: 0 clean, 1 a finding (then no time is given), 2 bad usage or input, 4 interrupted.");
  sub->add_option("--transport", o->transports,
                  "A list of multimem, peer (both tokenweave) and put (pypto)")
      ->capture_default_str();
  sub->add_option("--ranks", o->ranks, "LIST, up to 72")->capture_default_str();
  sub->add_option("--tokens", o->tokens, "LIST; padded to equal slices per rank")
      ->capture_default_str();
  sub->add_option("--blocks", o->blocks, "LIST: blocks per rank")->capture_default_str();
  sub->add_option("--waves", o->waves,
                  "LIST: number of parts of the tokens; the product of one overlaps the "
                  "communication of another (put: its tiles); above 1 needs --inner")
      ->capture_default_str();
  sub->add_option("--hidden", o->hidden, "Elements of a row")->capture_default_str();
  sub->add_option("--inner", o->inner, "Inner size of each rank's matrix product; 0: no product")
      ->capture_default_str();
  sub->add_option(
      "--gpus", o->gpus,
      "Number of GPUs; with fewer GPUs than ranks, ranks share them (default: --ranks)");
  sub->add_option("--kernel", o->kernel,
                  "ringfence: loads one row ahead; published: loads nothing ahead and reads the "
                  "residual twice")
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

#include "emulator/cli/run.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"

namespace ringfence::cli {

void add_run(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<RunOptions>();
  CLI::App* sub = app.add_subcommand("run",
                                     "Executes an operator or a case on rank processes and "
                                     "compares the results with the reference");
  sub->footer(
      "Exit status: 0 clean, 1 a finding or a mismatch, 2 bad usage or input, 3 a rank's "
      "process was lost (killed, or without a step for --stall), 4 interrupted.");
  add_case_options(*sub, o->c);
  add_model_options(*sub, o->c);
  add_executor_options(*sub, o->executor);
  sub->add_option("--output", o->output,
                  "File for the results (safetensors): out and residual_out of the first call; for "
                  "a case every memory of every rank, as NAME.RANK")
      ->group("Reports");
  sub->add_option("--numbers", o->numbers,
                  "File for the comparison as HTML: error histograms and heat maps")
      ->group("Reports");
  add_report_options(*sub, o->reports);
  add_picture_options(*sub, o->pictures);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

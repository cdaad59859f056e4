#include "emulator/cli/diff.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"

namespace ringfence::cli {

void add_diff(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<DiffOptions>();
  CLI::App* sub = app.add_subcommand(
      "diff", "Compares results in two safetensors files with the reference and with each other");
  sub->footer("Exit status: 0 all within their bounds, 1 a mismatch, 2 bad usage or input.");
  sub->add_option("A", o->a, "Results: out, and residual_out")->required();
  sub->add_option("B", o->b, "Results to compare with")->required();
  sub->add_option("--reference", o->reference, "Inputs: attn (or x), weight, residual, gamma, beta")
      ->required();
  sub->add_option("--map", o->input_map,
                  "Names of the tensors in the --reference file: gamma=NAME,beta=NAME, ...");
  sub->add_option("--protocol", o->protocol, "tokenweave or pypto (default: as the files say)");
  sub->add_option("--ranks", o->ranks, "Ranks that made the results (default: as the files say)")
      ->check(CLI::Range(1, 1024));
  sub->add_option("--summation", o->summation,
                  "Policy by which the ranks' values were summed (default: as the files say, else "
                  "the one with the widest bound)");
  o->eps_given =
      sub->add_option("--eps", o->eps, "RMSNorm epsilon (default: the files', else 1e-6)");
  sub->add_option("--numbers", o->numbers,
                  "File for the comparison as HTML: error histograms and heat maps")
      ->group("Reports");
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

#include "emulator/cli/ptx.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"

namespace ringfence::cli {

void add_ptx(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<PtxOptions>();
  CLI::App* sub = app.add_subcommand(
      "ptx", "Lists a PTX file's kernels, parameters and instructions, and what is not supported");
  sub->footer("Exit status: 0 all supported, 1 something is not, 2 bad usage or input.");
  sub->add_option("file", o->file,
                  "A PTX file, a program or library with embedded PTX, or a .cu file (needs nvcc)")
      ->required();
  sub->add_option("--case-template", o->case_template,
                  "Print a case file to complete for this kernel (a unique part of its name, "
                  "mangled or not); may be repeated for several launches in one case")
      ->allow_extra_args(false);
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

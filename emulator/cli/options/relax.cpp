#include "emulator/cli/relax.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"
#include "emulator/cli/options/validators.hpp"

namespace ringfence::cli {

void add_relax(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<RelaxOptions>();
  CLI::App* sub = app.add_subcommand("relax",
                                     "Weakens each order, scope, fence and barrier of a protocol "
                                     "or a case in turn, and reports which ones are needed");
  sub->footer(
      "Exit status: 0 a table was printed, 2 bad usage or input, 3 the unchanged protocol or case "
      "passes in no mode, or --time ended it, 4 interrupted. Where the time or a signal ends it, "
      "the table so far is printed.");
  add_case_options(*sub, o->c);
  add_model_options(*sub, o->c);
  const char* group = "Search";
  sub->add_option("--executions,--schedules", o->executions,
                  "Explore at most this many executions for each variant; runs that turn out to be "
                  "none count too")
      ->check(above_zero())
      ->capture_default_str()
      ->group(group);
  sub->add_option("--time", o->seconds, "Take at most this many seconds for all of it")
      ->check(above_zero())
      ->group(group);
  sub->add_option("--variant-time", o->variant_seconds,
                  "Search at most this many seconds for each variant")
      ->check(above_zero())
      ->capture_default_str()
      ->group(group);
  sub->add_option("--fuzz", o->schedules,
                  "Number of random schedules to try if a limit ended the exhaustive search")
      ->check(above_zero())
      ->capture_default_str()
      ->group(group);
  sub->add_option("--jobs", o->jobs, "Number of threads that share a search")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  sub->add_option("--traces", o->traces, "Folder for a trace of each weakening that fails")
      ->check(CLI::ExistingDirectory)
      ->group("Reports");
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

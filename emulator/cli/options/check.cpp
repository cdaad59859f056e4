#include "emulator/cli/check.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"
#include "emulator/cli/options/validators.hpp"

namespace ringfence::cli {

void add_check(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<CheckOptions>();
  CLI::App* sub = app.add_subcommand(
      "check", "Explores every schedule and every read of a case, at the given sizes");
  sub->footer(
      "Exit status: 0 no execution fails, 1 one fails in a judged mode, 2 bad usage or input, 3 no "
      "verdict: a limit ended the search, something was left out of it (docs/check.md has what "
      "that "
      "may be), or no execution completes, 4 interrupted.");
  add_case_options(*sub, o->c);
  add_model_options(*sub, o->c);
  const char* group = "Search";
  sub->add_option(
         "--executions,--schedules", o->executions,
         "Explore at most this many executions for each mode; runs that turn out to be none "
         "count too")
      ->check(above_zero())
      ->group(group);
  sub->add_option("--time", o->seconds, "Search at most this many seconds, for all modes together")
      ->check(above_zero())
      ->group(group);
  sub->add_option("--jobs", o->jobs, "Number of threads that share the search")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  sub->add_option("--arrivals", o->arrivals,
                  "set: explore reductions once if nothing can distinguish their orders; order: "
                  "explore each order")
      ->check(CLI::IsMember({"set", "order"}))
      ->capture_default_str()
      ->group(group);
  sub->add_option("--resume", o->resume,
                  "File in which a search that a limit or Ctrl-C ended is saved; if the file "
                  "exists, the search continues from it")
      ->group(group);
  sub->add_option("--stall", o->executor.stall_seconds,
                  "When a finding is confirmed over processes: give up if a rank makes no step for "
                  "this many seconds, of processor time or asleep")
      ->check(above_zero())
      ->capture_default_str()
      ->group(group);
  sub->add_option("--trace", o->trace,
                  "File for the trace of a finding (default: in ringfence-findings, named after "
                  "its content)")
      ->group("Reports");
  sub->add_flag("--shrink,!--no-shrink", o->shrink, "Shrink a finding before it is recorded")
      ->group("Reports");
  add_remedies_option(*sub, o->remedies, o->remedy_seconds);
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

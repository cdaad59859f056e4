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
      "check", "Explores every schedule and every read of a case of given sizes");
  sub->footer(
      "Exit status: 0 no execution fails, 1 one does in a judged mode, 2 bad usage or input, "
      "3 a bound ended the search, 4 interrupted.");
  add_case_options(*sub, o->c);
  add_model_options(*sub, o->c);
  const char* group = "Search";
  sub->add_option("--executions,--schedules", o->executions,
                  "At most so many executions for each mode")
      ->check(above_zero())
      ->group(group);
  sub->add_option("--time", o->seconds, "At most so many seconds for all modes together")
      ->check(above_zero())
      ->group(group);
  sub->add_option("--jobs", o->jobs, "Workers that share the search")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  sub->add_option("--arrivals", o->arrivals,
                  "set: reductions whose order nothing can tell count as one; order: each order "
                  "is explored")
      ->check(CLI::IsMember({"set", "order"}))
      ->capture_default_str()
      ->group(group);
  sub->add_option("--resume", o->resume,
                  "File for what a search leaves that a bound or Ctrl-C ended; if it is there, the "
                  "search goes on with it")
      ->group(group);
  sub->add_option("--stall", o->executor.stall_seconds,
                  "Seconds that a rank may go without a step, of processor time or asleep, when a "
                  "finding is confirmed over processes")
      ->check(above_zero())
      ->capture_default_str()
      ->group(group);
  sub->add_option("--trace", o->trace,
                  "File for the trace of a finding (default: named by its content, in "
                  "ringfence-findings)")
      ->group("Reports");
  sub->add_flag("--shrink,!--no-shrink", o->shrink, "Make a finding small before it is recorded")
      ->group("Reports");
  add_remedies_option(*sub, o->remedies, o->remedy_seconds);
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

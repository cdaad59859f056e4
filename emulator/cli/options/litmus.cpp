#include "emulator/cli/litmus.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"
#include "emulator/cli/options/validators.hpp"

namespace ringfence::cli {

void add_litmus(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<LitmusOptions>();
  CLI::App* sub = app.add_subcommand(
      "litmus", "Runs PTX litmus tests and compares the results with the expected verdicts");
  sub->footer(
      "Exit status: 0 all as expected (without --expect: every condition holds), 1 some are not, 2 "
      "bad usage or input (after the other tests have been judged), 3 some are undecided, 4 "
      "interrupted.");
  sub->add_option(
         "FILE", o->files,
         "Litmus tests in the syntax of the public PTX collections; for a folder, all tests in it")
      ->required();
  sub->add_option("--expect", o->expect,
                  "Expected verdicts: a file of lines NAME [POLICY=VALUE ...] "
                  "Never|Sometimes|Always [race|no-race] [hang|no-hang], or FILE,0|1, where NAME "
                  "may also be the test's file; or the word hang or no-hang for all tests");
  sub->add_option(
         "--ask", o->ask,
         "What to check: condition (the test's own), or termination (every execution ends)")
      ->check(CLI::IsMember({"condition", "termination"}))
      ->capture_default_str();
  const char* group = "Memory model";
  sub->add_option("--boundary", o->boundary,
                  "What the end of a kernel orders for other ranks (docs/modes.md): strict, stream "
                  "or coherent")
      ->capture_default_str()
      ->group(group);
  sub->add_option("--policy", o->policy,
                  "NAME=VALUE; may be repeated: load-buffering=on|off (default on: reads may "
                  "return later writes, and fence-sc order may contradict reads-from), "
                  "multicast-flag=cohere|strict (default strict), alias-data=cohere|fence-required "
                  "(default fence-required); the defaults take the manual literally")
      ->group(group)
      ->allow_extra_args(false);
  group = "Search";
  sub->add_option("--executions,--schedules", o->executions,
                  "Explore at most this many executions of a test; runs that turn out to be none "
                  "count too")
      ->check(above_zero())
      ->group(group);
  sub->add_option("--time", o->seconds, "Search at most this many seconds for a test")
      ->check(above_zero())
      ->group(group);
  sub->add_option("--bound", o->bound,
                  "Follow a loop that does not wait for at most this many iterations")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str()
      ->group(group);
  sub->add_option("--jobs", o->jobs, "Number of threads that share the search of a test")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

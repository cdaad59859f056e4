#include "emulator/cli/litmus.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"
#include "emulator/cli/options/validators.hpp"

namespace ringfence::cli {

void add_litmus(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<LitmusOptions>();
  CLI::App* sub =
      app.add_subcommand("litmus", "Runs PTX litmus tests, compares with the expected verdict");
  sub->footer(
      "Exit status: 0 all as expected (without --expect: every condition holds), 1 some are not, "
      "2 bad usage or input (the other tests are judged before), 3 some are not decided, 4 "
      "interrupted.");
  sub->add_option("FILE", o->files,
                  "Litmus tests, as the public PTX collections write them; of a folder all in it")
      ->required();
  sub->add_option("--expect", o->expect,
                  "File of lines NAME [POLICY=VALUE ...] Never|Sometimes|Always [race|no-race] "
                  "[hang|no-hang], or FILE,0|1; NAME may be the test's file. Or hang or no-hang, "
                  "for all tests");
  sub->add_option("--ask", o->ask,
                  "What is asked of a test: condition, or termination (every execution ends)")
      ->check(CLI::IsMember({"condition", "termination"}))
      ->capture_default_str();
  const char* group = "Memory model";
  sub->add_option("--boundary", o->boundary,
                  "What a kernel boundary does for other ranks: strict, stream or coherent")
      ->capture_default_str()
      ->group(group);
  sub->add_option(
         "--policy", o->policy,
         "NAME=VALUE; may be repeated: load-buffering=on|off (default on: reads may return "
         "later writes, fence-sc order may run against reads-from), "
         "multicast-flag=cohere|strict (default strict), alias-data=cohere|fence-required "
         "(default fence-required); the defaults are the manual's letter")
      ->group(group)
      ->allow_extra_args(false);
  group = "Search";
  sub->add_option("--executions,--schedules", o->executions, "At most so many executions of a test")
      ->check(above_zero())
      ->group(group);
  sub->add_option("--time", o->seconds, "At most so many seconds for a test")
      ->check(above_zero())
      ->group(group);
  sub->add_option("--bound", o->bound, "A loop that is no wait is followed so many times back")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str()
      ->group(group);
  sub->add_option("--jobs", o->jobs, "Workers that share a test's search")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

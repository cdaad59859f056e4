#include "emulator/cli/fuzz.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "emulator/cli/commands.hpp"
#include "emulator/cli/options/shared.hpp"
#include "emulator/cli/options/validators.hpp"

namespace ringfence::cli {

namespace {

void add_search_options(CLI::App& sub, FuzzOptions& o) {
  const char* group = "Search";
  o.schedules_given =
      sub.add_option("--schedules", o.schedules,
                     "Number of schedules for each mode, after the default schedule")
          ->check(above_zero())
          ->capture_default_str()
          ->group(group);
  sub.add_option("--time", o.seconds,
                 "Search at most this many seconds, for all modes together; without --schedules, "
                 "only the time limits the search")
      ->check(above_zero())
      ->group(group);
  sub.add_option("--strategy", o.strategy,
                 "How schedules are chosen (docs/search.md). portfolio: one of the others for "
                 "each schedule, and mutations of schedules that showed something new; random: a "
                 "random walk; pct: random priorities; pos: partial order sampling; surw: a "
                 "random walk, uniform over the orders of the accesses to a few places")
      ->check(CLI::IsMember({"portfolio", "random", "pct", "pos", "surw"}))
      ->capture_default_str()
      ->group(group);
  o.depth_given = sub.add_option("--depth", o.depth,
                                 "For --strategy pct: number of ordered steps that a bug may "
                                 "need (portfolio draws 1 to 8)")
                      ->check(CLI::Range(1, 100))
                      ->capture_default_str()
                      ->group(group);
  sub.add_option("--corpus", o.corpus,
                 "Folder of schedules that showed something new: portfolio starts with those of "
                 "its case and adds its own; several searches may share it")
      ->group(group);
  sub.add_option("--stale", o.stale,
                 "How often a read that may return several values returns an old one, 0 to 1")
      ->check(fraction())
      ->capture_default_str()
      ->group(group);
  sub.add_option("--seed", o.seed, "First seed; equal seeds search equal schedules")
      ->capture_default_str()
      ->group(group);
  sub.add_option("--jobs", o.jobs,
                 "Number of schedules to run in parallel, each with ranks of its own")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  auto* faults =
      sub.add_option("--faults", o.faults,
                     "Inject faults into ranks (docs/faults.md): a list of kill, restart, pause, "
                     "delay, late-signal and dirty-pad, each with =COUNT (up to that many in a "
                     "run; default 1) or =CHANCE (below 1: probability at each step). A hang "
                     "after a kill or a restart is not a finding, a silent wrong result always is")
          ->group(group);
  sub.add_flag("--survive", o.survive, "Make a hang after a kill or a restart a finding, too")
      ->needs(faults)
      ->group(group);
}

}  // namespace

void add_fuzz(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<FuzzOptions>();
  CLI::App* sub = app.add_subcommand(
      "fuzz",
      "Runs many schedules under the PTX memory model; stops at a finding, shrinks and records it");
  sub->footer(
      "Exit status: 0 no finding, 1 a finding in a judged mode, 2 bad usage or input, 3 no "
      "verdict, 4 interrupted, 70 the canary was not found.");
  add_case_options(*sub, o->c);
  add_model_options(*sub, o->c);
  add_search_options(*sub, *o);
  o->protocol_given = sub->get_option("--protocol");
  add_campaign_options(*sub, o->campaign);
  add_executor_options(*sub, o->executor);
  sub->add_option("--trace", o->trace,
                  "File for the trace of a finding (default: in ringfence-findings, named after "
                  "its content)")
      ->group("Reports");
  sub->add_flag("--shrink,!--no-shrink", o->shrink, "Shrink a finding before it is recorded")
      ->group("Reports");
  sub->add_flag("--all", o->all,
                "Continue after a finding of a case, ignoring its pair of lines, and list up to 20 "
                "findings")
      ->group("Reports");
  add_remedies_option(*sub, o->remedies, o->remedy_seconds);
  add_report_options(*sub, o->reports);
  add_sarif_option(*sub, o->reports);
  add_picture_options(*sub, o->pictures);
  sub->callback([o, &exit] { exit = run(*o); });
}

}  // namespace ringfence::cli

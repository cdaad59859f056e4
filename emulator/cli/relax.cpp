// relax: which orders, scopes and barriers of a protocol are needed, and how strong.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "emulator/check/explorer.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/case_program.hpp"
#include "emulator/cli/commands.hpp"
#include "emulator/cli/finding.hpp"
#include "emulator/cli/memory.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/programs/switches.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::cli {

namespace {

struct RelaxOptions {
  CaseOptions c;
  ReportOptions reports;
  std::uint64_t executions = 20000;
  unsigned jobs = 1;
  std::string traces;  // a folder
};

// A switch, and how far it can be weakened.
struct Site {
  std::string key, present;
  std::vector<std::string> weaker;  // the weakest first
  std::string alone, jointly;       // the weakest that passes: by itself, with the others weakened
  std::string why;                  // the finding of the next weaker one by itself; empty if none
  std::string trace;
};

using Settings = std::map<std::string, std::string>;

class Relaxer {
 public:
  Relaxer(const RelaxOptions& o, const Case& c, machine::Boundary mode)
      : o_(o), case_(c), mode_(mode), progress_(std::string(machine::name(mode)), "checks", 0) {}

  // Whether the protocol passes with these settings; nothing if a bound ended the search.
  std::optional<bool> passes(const Settings& set) {
    check::CheckSpec spec;
    spec.run = run_spec(case_, mode_);
    spec.executions = o_.executions;
    programs::Config config = case_.config;
    config.set = set;
    last_ = check::check([&] { return build_program(config); }, spec, o_.jobs);
    if (schedule::interrupted()) throw Interrupted();
    seconds_ += last_.seconds;
    progress_.at(++checks_, seconds_);
    if (last_.verdict == check::Verdict::unknown) return std::nullopt;
    return last_.verdict == check::Verdict::pass;
  }

  std::vector<Site> run(const Settings& start) {
    std::vector<Site> sites;
    for (const programs::Weakening& w : programs::weakenings(case_.config.protocol, start)) {
      if (sites.empty() || sites.back().key != w.key)
        sites.push_back({w.key, w.from, {}, {}, {}, {}, {}});
      sites.back().weaker.push_back(w.to);
    }
    for (Site& site : sites) weaken_alone(site, start);
    Settings together = start;
    for (Site& site : sites) {
      site.jointly = site.present;
      for (const std::string& to : site.weaker) {
        Settings set = together;
        set[site.key] = to;
        if (passes(set) != true) continue;
        together = std::move(set);
        site.jointly = to;
        break;
      }
    }
    return sites;
  }

  std::uint64_t checks() const { return checks_; }

 private:
  void weaken_alone(Site& site, const Settings& start) {
    site.alone = site.present;
    for (const std::string& to : site.weaker) {
      Settings set = start;
      set[site.key] = to;
      const auto passed = passes(set);
      if (passed == true) {
        site.alone = to;
        return;
      }
      site.why = passed ? tell(site, to, set) : to + ": not decided within the bound";
    }
  }

  // Why not that weak.
  std::string tell(Site& site, const std::string& to, const Settings& set) {
    const std::string kind(machine::name(schedule::failure(last_.outcome)->kind));
    if (!o_.traces.empty()) {
      Case c = case_;
      c.config.set = set;
      schedule::SearchResult found;
      found.found = true;
      found.outcome = last_.outcome;
      found.strategy.kind = schedule::StrategySpec::Kind::first;
      RecordOptions record;
      record.path = o_.traces + "/" + std::string(machine::name(mode_)) + "-" + site.key + "-" +
                    to + std::string(trace::kSuffix);
      record.remedies = false;
      site.trace = record_finding(c, mode_, found, record).path;
    }
    return to + ": " + kind;
  }

  const RelaxOptions& o_;
  const Case& case_;
  machine::Boundary mode_;
  Progress progress_;
  check::CheckResult last_;
  std::uint64_t checks_ = 0;
  double seconds_ = 0;
};

void print_table(machine::Boundary mode, const std::vector<Site>& sites) {
  fmt::print("mode {}\n{:<18} {:<9} {:<9} {:<9} {}\n", machine::name(mode), "site", "present",
             "alone", "jointly", "why not weaker");
  for (const Site& s : sites) {
    fmt::print("{:<18} {:<9} {:<9} {:<9} {}{}\n", s.key, s.present, s.alone, s.jointly, s.why,
               s.trace.empty() ? "" : " (" + s.trace + ")");
  }
  fmt::print("\n");
}

Exit relax(const RelaxOptions& o) {
  const Case c = resolve(o.c);
  if (is_case(c.config)) {
    throw UsageError(
        "relax --case: only the switches of a protocol are weakened; --protocol is due");
  }
  check_writable(o.reports);
  if (!o.traces.empty()) check_writable("--traces", o.traces + "/x");
  check_memory(c.config, o.jobs);
  fmt::print("relax {}\npolicies {}\nexhaustive for these sizes, at most {} executions a check\n\n",
             trace::case_text(c.config), trace::policy_text(c.policy, c.config), o.executions);
  Json tables = Json::object();
  bool any = false;
  for (const machine::Boundary mode : c.modes) {
    Relaxer relaxer(o, c, mode);
    const auto passed = relaxer.passes(c.config.set);
    if (passed != true) {
      fmt::print("mode {}: {}\n\n", machine::name(mode),
                 passed ? "it fails as it is, so there is nothing to relax"
                        : "not decided within the bound");
      tables[std::string(machine::name(mode))] = nullptr;
      continue;
    }
    any = true;
    const std::vector<Site> sites = relaxer.run(c.config.set);
    print_table(mode, sites);
    std::fflush(stdout);
    Json rows = Json::array();
    for (const Site& s : sites) {
      rows.push_back(Json{{"site", s.key},
                          {"present", s.present},
                          {"alone", s.alone},
                          {"jointly", s.jointly},
                          {"why", s.why},
                          {"trace", s.trace}});
    }
    tables[std::string(machine::name(mode))] = rows;
  }
  Json j = result_head("relax", any ? Verdict::pass : Verdict::unknown, 0);
  j["configuration"] = config_json(c.config);
  j["policy"] = policy_json(c.policy, c.config);
  j["modes"] = tables;
  write_reports(o.reports, j, {});
  return any ? Exit::clean : Exit::unknown;
}

}  // namespace

void add_relax(CLI::App& app, Exit& exit) {
  auto o = std::make_shared<RelaxOptions>();
  CLI::App* sub = app.add_subcommand(
      "relax", "Weakens each order, scope and barrier of a protocol in turn: needed or not");
  sub->footer(
      "Exit status: 0 a table was made, 2 bad usage or input, 3 it passes in no mode as it is, "
      "4 interrupted.");
  add_case_options(*sub, o->c);
  add_model_options(*sub, o->c);
  const char* group = "Search";
  sub->add_option("--schedules", o->executions, "At most so many executions for each check")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  sub->add_option("--jobs", o->jobs, "Workers that share a search")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  sub->add_option("--traces", o->traces, "Folder for a trace of each weakening that fails")
      ->check(CLI::ExistingDirectory)
      ->group("Reports");
  add_report_options(*sub, o->reports);
  sub->callback([o, &exit] { exit = relax(*o); });
}

}  // namespace ringfence::cli

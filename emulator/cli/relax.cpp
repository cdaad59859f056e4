// relax: which orders, scopes, fences and barriers of a protocol or of compiled kernels are needed,
// and how strong.
#include "emulator/cli/relax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "emulator/check/explorer.hpp"
#include "emulator/cli/case_options.hpp"
#include "emulator/cli/case_program.hpp"
#include "emulator/cli/finding.hpp"
#include "emulator/cli/instance.hpp"
#include "emulator/cli/memory.hpp"
#include "emulator/cli/progress.hpp"
#include "emulator/cli/report.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/search.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::cli {

namespace {

// A switch or an instruction's property, and how far it can be weakened.
struct Site {
  std::string key, present, where;
  std::vector<std::string> weaker;  // the weakest first
  std::string alone, jointly;       // the weakest that passes: by itself, with the others weakened
  std::string why;                  // the finding of the next weaker one by itself; empty if none
  std::string trace;
  bool searched = false;  // some answer of this row is a search's that found nothing
};

using Settings = std::map<std::string, std::string>;

// What is known of some settings.
enum class Answer : std::uint8_t {
  passes,  // every execution
  clean,   // the bound ended that; random schedules found nothing
  fails,
  undecided
};

class Relaxer {
 public:
  Relaxer(const RelaxOptions& o, const Case& c, machine::Boundary mode)
      : o_(o), case_(c), mode_(mode), progress_(std::string(machine::name(mode)), "checks", 0) {}

  Answer judge(const Settings& set) {
    const Answer a = exhaustive_ended_ ? check(set, o_.seconds) : check(set, kAfterUnknown);
    if (a != Answer::undecided) return a;
    return fuzz(set);
  }

  // As it is, which also decides how long an exhaustive search of a variant is worth while.
  Answer judge_start(const Settings& set) {
    const Answer a = judge(set);
    exhaustive_ended_ = a != Answer::clean;
    return a;
  }

  std::vector<Site> run(const Settings& start) {
    std::vector<Site> sites;
    programs::Config config = case_.config;
    config.set = start;
    for (const Step& w : weaker_steps(config)) {
      if (sites.empty() || sites.back().key != w.key) {
        sites.emplace_back();
        sites.back().key = w.key;
        sites.back().present = w.from;
        sites.back().where = w.where;
      }
      sites.back().weaker.push_back(w.to);
    }
    for (Site& site : sites) weaken_alone(site, start);
    Settings together = start;
    for (Site& site : sites) {
      site.jointly = site.present;
      for (const std::string& to : site.weaker) {
        // Not again what fails by itself: the others, weakened, add executions and take none away.
        if (site.alone == site.present) break;
        Settings set = together;
        set[site.key] = to;
        const Answer a = judge(set);
        site.searched |= a == Answer::clean;
        if (a != Answer::passes && a != Answer::clean) continue;
        together = std::move(set);
        site.jointly = to;
        break;
      }
    }
    return sites;
  }

 private:
  // Once the exhaustive search of the case itself met its bound, that of a variant gets so long to
  // find its fault.
  static constexpr double kAfterUnknown = 0.5;

  Answer check(const Settings& set, double seconds) {
    check::CheckSpec spec;
    spec.run = run_spec(case_, mode_);
    spec.executions = o_.executions;
    spec.seconds = seconds;
    programs::Config config = case_.config;
    config.set = set;
    const schedule::TimeLimit limit(seconds);
    try {
      check::CheckResult r = check::check([&] { return build_program(config); }, spec, o_.jobs);
      if (schedule::interrupted()) throw Interrupted();
      seconds_ += r.seconds;
      progress_.at(++checks_, seconds_);
      outcome_ = std::move(r.outcome);
      if (r.verdict == check::Verdict::unknown) return Answer::undecided;
      return r.verdict == check::Verdict::pass ? Answer::passes : Answer::fails;
    } catch (const std::invalid_argument& e) {
      refused_ = e.what();  // no such form of the instruction
      return Answer::undecided;
    }
  }

  Answer fuzz(const Settings& set) {
    if (!refused_.empty()) return Answer::undecided;
    programs::Config config = case_.config;
    config.set = set;
    const Instance instance = make_inline_instance(config);
    schedule::SearchSpec spec;
    spec.run = run_spec(case_, mode_);
    spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
    spec.schedules = o_.schedules;
    schedule::SearchResult r = schedule::search({instance.executor.get()}, spec);
    if (r.interrupted && !r.found) throw Interrupted();
    seconds_ += r.seconds;
    progress_.at(++checks_, seconds_);
    if (r.found) {
      outcome_ = std::move(r.outcome);
      return Answer::fails;
    }
    return r.undecided > 0 ? Answer::undecided : Answer::clean;
  }

  void weaken_alone(Site& site, const Settings& start) {
    site.alone = site.present;
    for (const std::string& to : site.weaker) {
      Settings set = start;
      set[site.key] = to;
      const Answer a = judge(set);
      site.searched |= a == Answer::clean;
      if (a == Answer::passes || a == Answer::clean) {
        site.alone = to;
        return;
      }
      if (!refused_.empty()) {
        refused_.clear();  // the next form may be one that there is
        continue;
      }
      site.why = a == Answer::fails ? tell(site, to, set) : to + ": not decided within the bound";
    }
  }

  // Why not that weak.
  std::string tell(Site& site, const std::string& to, const Settings& set) {
    const std::string kind(machine::name(schedule::failure(outcome_)->kind));
    if (!o_.traces.empty()) {
      Case c = case_;
      c.config.set = set;
      schedule::SearchResult found;
      found.found = true;
      found.outcome = outcome_;
      found.strategy.kind = schedule::StrategySpec::Kind::first;
      RecordOptions record;
      std::string name = site.key;
      std::replace(name.begin(), name.end(), '/', '-');
      record.path = o_.traces + "/" + std::string(machine::name(mode_)) + "-" + name + "-" + to +
                    std::string(trace::kSuffix);
      record.remedies = false;
      site.trace = record_finding(c, mode_, found, record).path;
    }
    return to + ": " + kind;
  }

  const RelaxOptions& o_;
  const Case& case_;
  machine::Boundary mode_;
  Progress progress_;
  schedule::Outcome outcome_;  // of the last failure
  std::string refused_;
  bool exhaustive_ended_ = true;
  std::uint64_t checks_ = 0;
  double seconds_ = 0;
};

void print_table(machine::Boundary mode, const std::vector<Site>& sites, std::uint64_t schedules) {
  std::size_t key = 4, where = 0;
  bool searched = false;
  for (const Site& s : sites) {
    key = std::max(key, s.key.size());
    where = std::max(where, s.where.size());
    searched |= s.searched;
  }
  const auto place = [&](const std::string& text) {
    return where == 0 ? std::string() : fmt::format("  {:<{}}", text, where);
  };
  fmt::print("mode {}\n{:<{}}{}  {:<8} {:<8} {:<8} {:<5} {}\n", machine::name(mode), "site", key,
             place("instruction (CUDA line)"), "present", "alone", "jointly", "by",
             "why not weaker");
  for (const Site& s : sites) {
    fmt::print("{:<{}}{}  {:<8} {:<8} {:<8} {:<5} {}{}\n", s.key, key, place(s.where), s.present,
               s.alone, s.jointly, s.searched ? "fuzz" : "check", s.why,
               s.trace.empty() ? "" : " (" + s.trace + ")");
  }
  if (searched) {
    fmt::print(
        "fuzz: a bound ended the exhaustive search, and {} random schedules found nothing: no "
        "proof\n",
        schedules);
  }
  fmt::print("\n");
}

}  // namespace

Exit run(const RelaxOptions& o) {
  const Case c = resolve(o.c);
  check_writable(o.reports);
  if (!o.traces.empty()) check_writable("--traces", o.traces + "/x");
  check_memory(c.config, o.jobs);
  fmt::print(
      "relax {}\npolicies {}\nexhaustive for these sizes, at most {} executions and {} s a check; "
      "beyond that {} schedules\n\n",
      trace::case_text(c.config), trace::policy_text(c.policy, c.config), o.executions, o.seconds,
      o.schedules);
  Json tables = Json::object();
  bool any = false;
  for (const machine::Boundary mode : c.modes) {
    Relaxer relaxer(o, c, mode);
    const Answer start = relaxer.judge_start(c.config.set);
    if (start == Answer::fails || start == Answer::undecided) {
      fmt::print("mode {}: {}\n\n", machine::name(mode),
                 start == Answer::fails ? "it fails as it is, so there is nothing to relax"
                                        : "not decided within the bound");
      tables[std::string(machine::name(mode))] = nullptr;
      continue;
    }
    any = true;
    const std::vector<Site> sites = relaxer.run(c.config.set);
    print_table(mode, sites, o.schedules);
    std::fflush(stdout);
    Json rows = Json::array();
    for (const Site& s : sites) {
      rows.push_back(Json{{"site", s.key},
                          {"where", s.where},
                          {"present", s.present},
                          {"alone", s.alone},
                          {"jointly", s.jointly},
                          {"exhaustive", !s.searched},
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

}  // namespace ringfence::cli

#include "emulator/analysis/relax.hpp"

#include <algorithm>
#include <stdexcept>

#include "emulator/analysis/errors.hpp"
#include "emulator/analysis/finding.hpp"
#include "emulator/check/explorer.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/search.hpp"

namespace ringfence::analysis {

namespace {

class Relaxer {
 public:
  Relaxer(const Task& task, machine::Boundary mode, const RelaxSpec& spec, const Watch& watch)
      : task_(task), mode_(mode), spec_(spec), watch_(watch) {}

  Answer judge(const Settings& set) {
    const Answer a = exhaustive_ended_ ? check(set, spec_.seconds) : check(set, kAfterUnknown);
    if (a != Answer::undecided) return a;
    return fuzz(set);
  }

  // As it is, which also decides how long an exhaustive search of a variant is worth while.
  Answer judge_start(const Settings& set) {
    const Answer a = judge(set);
    exhaustive_ended_ = a != Answer::clean;
    return a;
  }

  std::vector<RelaxedSite> run(const Settings& start) {
    std::vector<RelaxedSite> sites;
    for (const Step& w : task_.subject->with(start)->weaker()) {
      if (sites.empty() || sites.back().key != w.key) {
        sites.emplace_back();
        sites.back().key = w.key;
        sites.back().present = w.from;
        sites.back().where = w.where;
      }
      sites.back().weaker.push_back(w.to);
    }
    for (RelaxedSite& site : sites) weaken_alone(site, start);
    Settings together = start;
    for (RelaxedSite& site : sites) {
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
    spec.run = run_spec(task_, mode_);
    spec.executions = spec_.executions;
    spec.seconds = seconds;
    const SubjectPtr subject = task_.subject->with(set);
    const schedule::TimeLimit limit(seconds);
    try {
      check::CheckResult r =
          check::check([&] { return subject->make_program(); }, spec, spec_.jobs);
      if (schedule::interrupted()) throw Interrupted();
      seconds_ += r.seconds;
      watch_.say({mode_, ++checks_, 0, seconds_, -1});
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
    const Instance instance = make_inline_instance(*task_.subject->with(set));
    schedule::SearchSpec spec;
    spec.run = run_spec(task_, mode_);
    spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
    spec.schedules = spec_.schedules;
    schedule::SearchResult r = schedule::search({instance.executor.get()}, spec);
    if (r.interrupted && !r.found) throw Interrupted();
    seconds_ += r.seconds;
    watch_.say({mode_, ++checks_, 0, seconds_, -1});
    if (r.found) {
      outcome_ = std::move(r.outcome);
      return Answer::fails;
    }
    return r.undecided > 0 ? Answer::undecided : Answer::clean;
  }

  void weaken_alone(RelaxedSite& site, const Settings& start) {
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
      site.why = a == Answer::fails ? tell(site, to, set) : to + ": not decided within the limits";
    }
  }

  // Why not that weak.
  std::string tell(RelaxedSite& site, const std::string& to, const Settings& set) {
    const std::string kind(machine::name(schedule::failure(outcome_)->kind));
    if (!spec_.traces.empty()) {
      Task weakened = task_;
      weakened.subject = task_.subject->with(set);
      schedule::SearchResult found;
      found.found = true;
      found.outcome = outcome_;
      found.strategy.kind = schedule::StrategySpec::Kind::first;
      RecordOptions record;
      std::string name = site.key;
      std::replace(name.begin(), name.end(), '/', '-');
      record.path = spec_.traces + "/" + std::string(machine::name(mode_)) + "-" + name + "-" + to +
                    std::string(trace::kSuffix);
      record.remedies = false;
      site.trace = record_finding(weakened, mode_, found, record).path;
    }
    return to + ": " + kind;
  }

  const Task& task_;
  const machine::Boundary mode_;
  const RelaxSpec& spec_;
  const Watch& watch_;
  schedule::Outcome outcome_;  // of the last failure
  std::string refused_;
  bool exhaustive_ended_ = true;
  std::uint64_t checks_ = 0;
  double seconds_ = 0;
};

}  // namespace

RelaxResult relax(const Task& task, machine::Boundary mode, const RelaxSpec& spec,
                  const Watch& watch) {
  RelaxResult out;
  Relaxer relaxer(task, mode, spec, watch);
  const Settings& set = task.config().set();
  out.start = relaxer.judge_start(set);
  if (out.any()) out.sites = relaxer.run(set);
  watch.over(mode);
  return out;
}

}  // namespace ringfence::analysis

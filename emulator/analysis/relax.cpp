#include "emulator/analysis/relax.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "emulator/analysis/check.hpp"
#include "emulator/analysis/errors.hpp"
#include "emulator/analysis/finding.hpp"
#include "emulator/check/explorer.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/search.hpp"

namespace ringfence::analysis {

namespace {

// The rest is not tried.
struct Ended {
  RelaxEnd by;
};

class Relaxer {
 public:
  Relaxer(const Task& task, machine::Boundary mode, const RelaxSpec& spec, const Watch& watch)
      : task_(task), mode_(mode), spec_(spec), watch_(watch) {}

  Answer judge(const Settings& set) {
    const Answer a = exhaustive_ended_ ? check(set, spec_.seconds)
                                       : check(set, std::min(kAfterUnknown, spec_.seconds));
    if (a != Answer::undecided) return a;
    return fuzz(set);
  }

  // As it is, which also decides how long an exhaustive search of a variant is worth while.
  Answer judge_start(const Settings& set) {
    const Answer a = judge(set);
    exhaustive_ended_ = a != Answer::clean;
    return a;
  }

  // The sites in turn, into the table as it grows. Throws Ended.
  void run(const Settings& start, RelaxResult& out) {
    std::vector<RelaxedSite> all;
    for (const Step& w : task_.subject->with(start)->weaker()) {
      if (all.empty() || all.back().key != w.key) {
        all.emplace_back();
        all.back().key = w.key;
        all.back().present = w.from;
        all.back().where = w.where;
      }
      all.back().weaker.push_back(w.to);
    }
    out.untried = all.size();
    for (RelaxedSite& site : all) {
      weaken_alone(site, start);
      out.sites.push_back(std::move(site));
      --out.untried;
    }
    Settings together = start;
    for (RelaxedSite& site : out.sites) {
      std::string jointly = site.present;
      for (const std::string& to : site.weaker) {
        // Not again what fails by itself: the others, weakened, add executions and take none away.
        if (site.alone == site.present) break;
        Settings set = together;
        set[site.key] = to;
        const Answer a = judge(set);
        site.searched |= a == Answer::clean;
        if (a != Answer::passes && a != Answer::clean) continue;
        together = std::move(set);
        jointly = to;
        break;
      }
      site.jointly = std::move(jointly);
    }
  }

 private:
  // Once the exhaustive search of the case itself met its bound, that of a variant gets so long to
  // find its fault.
  static constexpr double kAfterUnknown = 0.5;

  // How long a search may take that may take so long by itself. Throws Ended where there is no time
  // left.
  double time_for(double seconds) const {
    if (!spec_.end) return seconds;
    const std::chrono::duration<double> left = *spec_.end - std::chrono::steady_clock::now();
    if (left.count() <= 0) throw Ended{RelaxEnd::time};
    return seconds > 0 ? std::min(seconds, left.count()) : left.count();
  }

  // Behind a search that did not come to its own end.
  void throw_if_ended() const {
    if (schedule::interrupted()) throw Ended{RelaxEnd::signal};
    time_for(0);
  }

  Answer check(const Settings& set, double seconds) {
    seconds = time_for(seconds);
    check::CheckSpec spec;
    spec.run = run_spec(task_, mode_);
    spec.executions = spec_.executions;
    spec.seconds = seconds;
    const SubjectPtr subject = task_.subject->with(set);
    const schedule::TimeLimit limit(seconds);
    try {
      check::CheckResult r = explore_subject(*subject, spec, spec_.jobs);
      seconds_ += r.seconds;
      watch_.say({mode_, ++checks_, 0, seconds_, -1});
      if (r.verdict == check::Verdict::unknown) {
        throw_if_ended();
        return Answer::undecided;
      }
      outcome_ = std::move(r.outcome);
      return r.verdict == check::Verdict::pass ? Answer::passes : Answer::fails;
    } catch (const std::invalid_argument& e) {
      refused_ = e.what();  // no such form of the instruction
      return Answer::undecided;
    }
  }

  Answer fuzz(const Settings& set) {
    if (!refused_.empty()) return Answer::undecided;
    const schedule::TimeLimit limit(time_for(0));
    const Instance instance = make_inline_instance(*task_.subject->with(set));
    schedule::SearchSpec spec;
    spec.run = run_spec(task_, mode_);
    spec.run.strategy.kind = schedule::StrategySpec::Kind::pct;
    spec.schedules = spec_.schedules;
    schedule::SearchResult r = schedule::search({instance.executor.get()}, spec);
    seconds_ += r.seconds;
    watch_.say({mode_, ++checks_, 0, seconds_, -1});
    if (r.found) {
      outcome_ = std::move(r.outcome);
      return Answer::fails;
    }
    throw_if_ended();
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
  try {
    out.start = relaxer.judge_start(set);
    if (out.any()) relaxer.run(set, out);
  } catch (const Ended& e) {
    out.end = e.by;
  } catch (const schedule::StopRequested&) {  // while a program was made
    out.end = schedule::interrupted() ? RelaxEnd::signal : RelaxEnd::time;
  }
  watch.over(mode);
  return out;
}

}  // namespace ringfence::analysis

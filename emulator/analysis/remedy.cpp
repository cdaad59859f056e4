#include "emulator/analysis/remedy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "emulator/analysis/instance.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "emulator/schedule/search.hpp"
#include "emulator/schedule/shrink.hpp"
#include "verify/error.hpp"

namespace ringfence::analysis {

namespace {

// Fewer say nothing; so many have to pass where time ends a search.
constexpr std::uint64_t kFewestSchedules = 20;

void apply(const Step& change, Settings& set) {
  if (change.to.empty()) {
    set.erase(change.key);
    return;
  }
  set[change.key] = change.to;
  for (const std::string& key : change.also) set[key] = change.to;
}

class Trials {
 public:
  Trials(const Subject& subject, const schedule::RunSpec& base,
         const std::vector<schedule::Decision>& decisions, const RemedyLimits& limits,
         const Watch& watch)
      : subject_(subject),
        base_(base),
        decisions_(decisions),
        limits_(limits),
        watch_(watch),
        limit_(limits.seconds) {}

  bool over() const { return schedule::must_stop(); }

  // Whether the finding's schedule and a search of others are clean with these changes. Choices
  // that no longer apply are passed over.
  bool passes(const std::vector<Step>& changes) { return schedules_passed(changes) != 0; }

  // How many of the search's it passes; 0: it does not.
  std::uint64_t schedules_passed(const std::vector<Step>& changes) {
    Settings changed = subject_.config().set();
    for (const Step& c : changes) apply(c, changed);
    if (over()) {
      cut_short = true;
      return 0;
    }
    ++tried;
    watch_.try_remedy(tried, seconds(), limits_.seconds);
    try {
      const std::uint64_t passed = passed_by(*subject_.with(changed));
      cut_short = cut_short || (passed == 0 && over());
      return passed;
    } catch (const std::invalid_argument&) {
      return 0;  // not a legal configuration
    } catch (const verify::InputError&) {
      return 0;
    } catch (const schedule::StopRequested&) {
      cut_short = true;
      return 0;
    }
  }

  std::uint32_t tried = 0;
  bool cut_short = false;  // one of them came to no end

 private:
  std::uint64_t passed_by(const Subject& changed) const {
    const Instance instance = make_inline_instance(changed);
    const schedule::Outcome again =
        instance.executor->run(schedule::replay_spec(base_, decisions_));
    if (schedule::failure(again) || schedule::undecided(again)) return 0;
    schedule::SearchSpec search;
    search.run = base_;
    search.run.strategy.kind = schedule::StrategySpec::Kind::pct;
    search.schedules = limits_.schedules;
    const auto result = schedule::search(
        {instance.executor.get()}, search,
        [&](std::uint64_t, double) { watch_.try_remedy(tried, seconds(), limits_.seconds); });
    if (result.found || result.undecided != 0 || result.interrupted) return 0;
    // Where time ended it, so many say enough.
    const bool enough = result.schedules >= std::min(kFewestSchedules, limits_.schedules);
    return enough ? result.schedules : 0;
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  const Subject& subject_;
  const schedule::RunSpec& base_;
  const std::vector<schedule::Decision>& decisions_;
  const RemedyLimits& limits_;
  const Watch& watch_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  // The outer one has no end: a process whose outermost limit is over is to end itself.
  schedule::TimeLimit none_{0};
  schedule::TimeLimit limit_;
};

// The steps of one switch, weakest first.
using Ladder = std::vector<Step>;

// Where several instructions of one line of the source do the same, one ladder is for all of them:
// a change of the source would be.
std::vector<Ladder> ladders(const Subject& subject) {
  std::vector<Ladder> out;
  const auto property = [](const Step& s) { return s.key.substr(s.key.rfind('/')); };
  for (Step& step : subject.stronger()) {
    if (!out.empty() && out.back().front().key == step.key) {
      out.back().push_back(std::move(step));
      continue;
    }
    const bool of_source = step.where.find(", ") != std::string::npos;
    const auto same = std::find_if(out.begin(), out.end(), [&](const Ladder& l) {
      return of_source && l.front().where == step.where && l.front().from == step.from &&
             property(l.front()) == property(step) && l.front().key != step.key;
    });
    if (same == out.end()) {
      out.emplace_back().push_back(std::move(step));
      continue;
    }
    for (Step& s : *same) {
      if (std::find(s.also.begin(), s.also.end(), step.key) == s.also.end()) {
        s.also.push_back(step.key);
      }
    }
  }
  return out;
}

// The strongest protocol there is, and then each switch as weak as the others allow.
Remedy combined(Trials& trials, const std::vector<Ladder>& all) {
  std::vector<Step> changes;
  for (const Ladder& l : all) changes.push_back(l.back());
  if (changes.empty() || !trials.passes(changes)) return {};
  // Those that the case does not name are given up first: a change near the fault stays.
  for (std::size_t i = all.size(); i-- > 0;) {
    if (trials.over()) return {};  // what is left of them is not the least
    const Step strongest = changes[i];
    changes.erase(changes.begin() + static_cast<std::ptrdiff_t>(i));
    if (trials.passes(changes)) continue;
    Step least = strongest;
    for (const Step& step : all[i]) {
      if (step.to == strongest.to) break;
      changes.insert(changes.begin() + static_cast<std::ptrdiff_t>(i), step);
      const bool enough = trials.passes(changes);
      changes.erase(changes.begin() + static_cast<std::ptrdiff_t>(i));
      if (enough) {
        least = step;
        break;
      }
    }
    changes.insert(changes.begin() + static_cast<std::ptrdiff_t>(i), least);
  }
  return {changes};
}

}  // namespace

namespace {

bool at_any(const Step& step, const std::vector<std::string>& sites) {
  return std::any_of(sites.begin(), sites.end(), [&](const std::string& site) {
    const auto is_of = [&](const std::string& key) { return key.starts_with(site + "/"); };
    return is_of(step.key) || std::any_of(step.also.begin(), step.also.end(), is_of);
  });
}

class Finder {
 public:
  Finder(const Subject& subject, Trials& trials, const RemedyLimits& limits, const Clues& clues,
         Remedies& out)
      : subject_(subject), trials_(trials), limits_(limits), clues_(clues), out_(out) {}

  void run() {
    if (undo()) return;
    std::vector<Ladder> all = ladders(subject_);
    std::erase_if(all, [&](const Ladder& l) {
      return out_.kernel && clues_.cause_known && l.front().from == "weak" &&
             !at_any(l.front(), clues_.flags);
    });
    std::vector<Ladder> near;
    for (const Ladder& l : all) {
      if (at_any(l.front(), clues_.sites)) near.push_back(l);
    }
    for (const Step& step : clues_.insertions) {
      // A memory that is cleared after each call need not be after each launch.
      if (!out_.found.empty() && out_.found.back().changes.front().key == step.key) continue;
      if (take({step}) || step.also.empty()) continue;
      Step alone = step;
      alone.also.clear();
      const std::string place = step.key.substr(0, step.key.rfind('/'));
      alone.where += fmt::format(" (PTX line {} alone, not the {} others of that line)",
                                 place.substr(place.rfind(':') + 1), step.also.size());
      take({alone});
    }
    climb(near);
    if (out_.found.empty()) pairs(near);
    if (!out_.found.empty() && out_.kernel) return;
    std::erase_if(all, [&](const Ladder& l) { return at_any(l.front(), clues_.sites); });
    climb(all);
    if (!out_.found.empty()) return;
    all.insert(all.begin(), near.begin(), near.end());
    // Together, only what was there to synchronise: all accesses of a kernel made strong tell
    // nobody anything.
    if (out_.kernel) {
      std::erase_if(all, [](const Ladder& l) { return l.front().from == "weak"; });
    }
    if (all.empty() || trials_.over()) return;
    Remedy both = combined(trials_, all);
    if (!both.changes.empty()) {
      both.schedules = trials_.schedules_passed(both.changes);
      if (both.schedules != 0) out_.found.push_back(both);
    }
  }

 private:
  bool take(const std::vector<Step>& changes) {
    if (out_.found.size() == limits_.most) return false;
    if (trials_.over()) {
      out_.complete = false;
      return false;
    }
    const std::uint64_t passed = trials_.schedules_passed(changes);
    if (passed != 0) out_.found.push_back({changes, passed});
    return passed != 0;
  }

  // What the user took out is put back. Of a protocol that is one of its switches' steps.
  bool undo() {
    if (!out_.kernel) return false;
    for (const auto& [key, value] : subject_.config().set()) take({{key, value, "", ""}});
    return !out_.found.empty();
  }

  void climb(const std::vector<Ladder>& ladders) {
    for (const Ladder& ladder : ladders) {
      for (const Step& step : ladder) {
        if (take({step})) break;  // a stronger one would do as well
      }
      if (out_.found.size() == limits_.most || trials_.over()) return;
    }
  }

  void pairs(const std::vector<Ladder>& near) {
    std::vector<Step> steps = clues_.insertions;
    for (const Ladder& l : near) {
      const bool flag = at_any(l.front(), clues_.flags);
      if (flag || l.front().from != "weak") steps.push_back(l.back());
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (std::size_t j = i + 1; j < steps.size(); ++j) {
        if (steps[i].key == steps[j].key) continue;
        if (take({steps[i], steps[j]}) || trials_.over()) return;
      }
    }
  }

  const Subject& subject_;
  Trials& trials_;
  const RemedyLimits& limits_;
  const Clues& clues_;
  Remedies& out_;
};

}  // namespace

Remedies find_remedies(const Subject& subject, const schedule::RunSpec& base,
                       const std::vector<schedule::Decision>& decisions, const RemedyLimits& limits,
                       const Clues& clues, const Watch& watch) {
  Remedies out;
  out.kernel = subject.kernels();
  {
    Trials trials(subject, base, decisions, limits, watch);
    Finder(subject, trials, limits, clues, out).run();
    out.tried = trials.tried;
    out.complete = out.complete && !trials.cut_short;
  }
  watch.remedies_over();
  out.seconds = limits.seconds;
  out.schedules = limits.schedules;
  for (const Remedy& r : out.found) out.schedules = std::min(out.schedules, r.schedules);
  return out;
}

namespace {

// What stands for an instruction in CUDA C++; where it has no name there, the instruction.
std::string_view in_cuda(std::string_view instruction) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"bar.sync", "__syncthreads()"},
      {"fence.sc.sys", "__threadfence_system()"},
      {"cp.async.wait_all", "__pipeline_wait_prior(0)"},
      {"griddepcontrol.wait", "cudaGridDependencySynchronize()"},
  };
  for (const auto& [ptx, cuda] : kNames) {
    if (ptx == instruction) return cuda;
  }
  return instruction;
}

// "--set A=x --set B=x": what it takes to try a step.
std::string settings(const Step& c) {
  constexpr std::size_t kMost = 3;
  std::string out = fmt::format("--set {}={}", c.key, c.to);
  for (std::size_t i = 0; i < c.also.size() && i < kMost; ++i) {
    out += fmt::format(" --set {}={}", c.also[i], c.to);
  }
  if (c.also.size() > kMost) {
    out += fmt::format(", and the same at {} more of this line", c.also.size() - kMost);
  }
  return out;
}

std::string text(const Step& c) {
  if (c.key.ends_with("/init")) {
    return fmt::format("{} initialised with zeros (--set {}={})", c.where, c.key, c.to);
  }
  if (c.key.ends_with("/clear")) {
    return fmt::format("{} cleared by the host after each {} (--set {}={})", c.where, c.to, c.key,
                       c.to);
  }
  if (c.from.empty()) {
    const bool after = c.key.ends_with("/after");
    const bool cuda = c.where.find(".ptx:") == std::string::npos;
    std::string what;
    for (std::size_t at = 0; at <= c.to.size();) {
      const std::size_t end = std::min(c.to.size(), c.to.find('+', at));
      const std::string one = c.to.substr(at, end - at);
      what += (what.empty() ? "" : " and ") + std::string(cuda ? in_cuda(one) : one);
      at = end + 1;
    }
    return fmt::format("{} {} {} ({})", what, after ? "after" : "before", c.where, settings(c));
  }
  if (c.to.empty()) return fmt::format("without {}={}", c.key, c.from);
  const std::string was = c.where.empty() ? "" : ": " + c.where;
  if (c.also.empty()) return fmt::format("{}={} (it is {}{})", c.key, c.to, c.from, was);
  return fmt::format("{}={} (it is {}{}; with the {} other instruction{} of this line: {})", c.key,
                     c.to, c.from, was, c.also.size(), c.also.size() == 1 ? "" : "s", settings(c));
}

}  // namespace

std::string text(const Remedy& remedy) {
  std::string out;
  for (const Step& c : remedy.changes) out += (out.empty() ? "" : " and ") + text(c);
  return out;
}

std::string text(const Remedies& r) {
  if (r.tried == 0) return "";
  if (r.found.empty()) {
    std::string out =
        fmt::format("None of the {} changes that were tried makes it pass ({}{})\n", r.tried,
                    r.kernel ? "orders, scopes, fences and barriers of the kernels"
                             : "switches of the protocol",
                    r.complete ? ""
                               : fmt::format("; the {:g} s were over, --remedies {:g}s gives more",
                                             r.seconds, 10 * r.seconds));
    if (!r.instead.empty()) out += fmt::format("  Suggested, not tried: {}\n", r.instead);
    return out;
  }
  std::string out = fmt::format(
      "What would make it pass (tried: this schedule and {} others, no finding):\n", r.schedules);
  for (std::size_t i = 0; i < r.found.size(); ++i) {
    out += fmt::format("  {}{}\n", i == 0 ? "" : "or ", text(r.found[i]));
  }
  return out;
}

nlohmann::ordered_json to_json(const Remedies& r) {
  using Json = nlohmann::ordered_json;
  Json found = Json::array();
  for (const Remedy& remedy : r.found) {
    Json changes = Json::array();
    for (const Step& c : remedy.changes) {
      std::vector<std::string> keys{c.key};
      keys.insert(keys.end(), c.also.begin(), c.also.end());
      for (const std::string& key : keys) {
        changes.push_back(Json{
            {"switch", key}, {"from", c.from}, {"to", c.to.empty() ? Json(nullptr) : Json(c.to)}});
      }
    }
    found.push_back(Json{{"changes", changes}});
  }
  return Json{
      {"found", found}, {"tried", r.tried}, {"schedules", r.schedules}, {"complete", r.complete}};
}

}  // namespace ringfence::analysis

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

constexpr std::uint64_t kKernelSchedules = 60;

void apply(const Step& change, Settings& set) {
  if (change.to.empty()) {
    set.erase(change.key);
  } else {
    set[change.key] = change.to;
  }
}

class Trials {
 public:
  Trials(const Subject& subject, const schedule::RunSpec& base,
         const std::vector<schedule::Decision>& decisions, const RemedyLimits& limits)
      : subject_(subject), base_(base), decisions_(decisions), limits_(limits) {}

  bool over() const { return schedule::must_stop() || seconds() >= limits_.seconds; }

  // Whether the finding's schedule and a search of others are clean with these changes. Choices
  // that no longer apply are passed over.
  bool passes(const std::vector<Step>& changes) {
    Settings changed = subject_.config().set;
    for (const Step& c : changes) apply(c, changed);
    ++tried;
    try {
      const Instance instance = make_inline_instance(*subject_.with(changed));
      const schedule::Outcome again =
          instance.executor->run(schedule::replay_spec(base_, decisions_));
      if (schedule::failure(again) || schedule::undecided(again)) return false;
      schedule::SearchSpec search;
      search.run = base_;
      search.run.strategy.kind = schedule::StrategySpec::Kind::pct;
      search.schedules = limits_.schedules;
      const auto result = schedule::search({instance.executor.get()}, search);
      return !result.found && result.undecided == 0 && !result.interrupted;
    } catch (const std::invalid_argument&) {
      return false;  // not a legal configuration
    } catch (const verify::InputError&) {
      return false;
    }
  }

  std::uint32_t tried = 0;

 private:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  const Subject& subject_;
  const schedule::RunSpec& base_;
  const std::vector<schedule::Decision>& decisions_;
  const RemedyLimits& limits_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The steps of one switch, weakest first.
using Ladder = std::vector<Step>;

std::vector<Ladder> ladders(const Subject& subject) {
  std::vector<Ladder> out;
  for (Step& step : subject.stronger()) {
    if (out.empty() || out.back().front().key != step.key) out.emplace_back();
    out.back().push_back(std::move(step));
  }
  return out;
}

// The strongest protocol there is, and then each switch as weak as the others allow. `in_time`: not
// beyond the time for all trials.
Remedy combined(Trials& trials, const std::vector<Ladder>& all, bool in_time) {
  std::vector<Step> changes;
  for (const Ladder& l : all) changes.push_back(l.back());
  if (changes.empty() || !trials.passes(changes)) return {};
  // Those that the case does not name are given up first: a change near the fault stays.
  for (std::size_t i = all.size(); i-- > 0;) {
    if (in_time && trials.over()) return {};  // what is left of them is not the least
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

Remedies find_remedies(const Subject& subject, const schedule::RunSpec& base,
                       const std::vector<schedule::Decision>& decisions,
                       const RemedyLimits& limits) {
  Remedies out;
  out.schedules = limits.schedules;
  out.kernel = subject.kernels();
  RemedyLimits within = limits;
  if (out.kernel) {
    // A kernel's runs are longer, and it has more sites than a protocol has switches.
    within.schedules = std::min<std::uint64_t>(within.schedules, kKernelSchedules);
    within.seconds *= 3;
    out.schedules = within.schedules;
  }
  Trials trials(subject, base, decisions, within);
  std::vector<Ladder> all = ladders(subject);
  for (const Ladder& ladder : all) {
    for (const Step& step : ladder) {
      if (trials.over()) {
        out.complete = false;
        break;
      }
      if (!trials.passes({step})) continue;
      out.found.push_back({{step}});
      break;  // a stronger one would do as well
    }
    if (out.found.size() == limits.most) break;
  }
  // Together, only what was there to synchronise: all accesses of a kernel made strong tell nobody
  // anything.
  if (out.kernel) {
    std::erase_if(all, [](const Ladder& l) { return l.front().from == "weak"; });
  }
  if (out.found.empty() && !all.empty() && !trials.over()) {
    if (Remedy both = combined(trials, all, out.kernel); !both.changes.empty())
      out.found.push_back(both);
  }
  out.tried = trials.tried;
  return out;
}

std::string text(const Remedy& remedy) {
  std::string out;
  for (const Step& c : remedy.changes) {
    if (!out.empty()) out += " and ";
    out += c.to.empty() ? fmt::format("without {}={}", c.key, c.from)
                        : fmt::format("{}={} (it is {}{})", c.key, c.to, c.from,
                                      c.where.empty() ? "" : ": " + c.where);
  }
  return out;
}

std::string text(const Remedies& r) {
  if (r.tried == 0) return "";
  if (r.found.empty()) {
    return fmt::format("What would make it pass: no {} that was tried ({} settings{})\n",
                       r.kernel ? "order, scope or fence of the kernels" : "switch of the protocol",
                       r.tried, r.complete ? "" : ", time ended it");
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
      changes.push_back(Json{
          {"switch", c.key}, {"from", c.from}, {"to", c.to.empty() ? Json(nullptr) : Json(c.to)}});
    }
    found.push_back(Json{{"changes", changes}});
  }
  return Json{
      {"found", found}, {"tried", r.tried}, {"schedules", r.schedules}, {"complete", r.complete}};
}

}  // namespace ringfence::analysis

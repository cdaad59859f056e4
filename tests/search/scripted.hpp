#pragma once
// An executor without ranks: a schedule is a list of decisions, and it fails if certain ones are in
// it. Random schedules draw theirs from the seed.

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/search.hpp"

namespace ringfence::schedule {

inline Decision decision(std::uint64_t agent, std::uint32_t point) {
  Decision d;
  d.agent = agent;
  d.point = point;
  return d;
}

class ScriptedExecutor : public Executor {
 public:
  // Schedules fail with a data race if they take all of `cause`.
  explicit ScriptedExecutor(std::vector<Decision> cause) : cause_(std::move(cause)) {}

  Outcome run(const RunSpec& spec) override {
    ++runs;
    last = spec;
    Outcome o;
    o.points = 100;
    if (spec.strategy.kind == StrategySpec::Kind::replay) {
      o.decisions = spec.decisions;
    } else if (spec.strategy.kind != StrategySpec::Kind::first) {
      for (std::uint32_t i = 0; i < length; ++i) {
        if ((schedule_seed(spec.strategy.seed, i + 1) & 3) == 0)
          o.decisions.push_back(decision(i, i));
      }
    }
    // A run ends at its fault: what comes after the last of the causes is never taken.
    const bool fails = std::all_of(cause_.begin(), cause_.end(), [&](const Decision& c) {
      return std::find(o.decisions.begin(), o.decisions.end(), c) != o.decisions.end();
    });
    for (const Decision& d : o.decisions) o.digest = o.digest * 31 + d.agent * 7 + d.point;
    if (fails) {
      machine::Finding f;
      f.kind = kind;
      o.findings.push_back(f);
      o.end = RunEnd::finding;
    } else {
      o.end = end;
    }
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    return o;
  }

  std::uint32_t length = 40;
  std::atomic<std::uint32_t> runs{0};
  RunSpec last;
  RunEnd end = RunEnd::complete;
  machine::FindingKind kind = machine::FindingKind::data_race;
  std::chrono::microseconds delay{0};

 private:
  std::vector<Decision> cause_;
};

}  // namespace ringfence::schedule

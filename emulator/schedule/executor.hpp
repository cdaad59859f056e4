#pragma once
// Runs a program once. Two implementations (emulator/ranks): one process a rank, or all inline;
// the same specification gives the same outcome in both.

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/schedule/decision.hpp"
#include "emulator/schedule/execution.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::schedule {

struct RunSpec {
  machine::Policy policy;
  StrategySpec strategy;
  std::vector<Decision> decisions;  // for StrategySpec::Kind::replay
  std::vector<machine::FindingKind> ignore;
  std::uint32_t expected_points = 0;
  std::uint32_t point_limit = 1u << 22;
  bool history = false;  // record every event (slow; for stories)
};

// An agent that could not go on when a run ended in a deadlock.
struct StuckAgent {
  std::uint64_t label = 0;
  AgentStatus status = AgentStatus::awaiting;
  AwaitInfo await;                // if status is awaiting
  std::uint64_t value_there = 0;  // the newest value of the awaited slot
  std::uint32_t last_step = 0;
};

// A rank process that ended, or stopped answering, in the middle of a run.
struct LostRank {
  std::uint16_t rank = 0;
  std::uint32_t last_step = 0;
  std::string last_agent;
  int wait_status = 0;  // as waitpid gives it; meaningless if `stalled`
  bool stalled = false;
};

struct Outcome {
  RunEnd end = RunEnd::complete;
  std::vector<machine::Finding> findings;  // empty: the run is clean (if end is complete)
  std::vector<Decision> decisions;
  std::vector<StuckAgent> stuck;
  std::vector<LostRank> lost;
  std::vector<machine::Event> history;  // if asked for
  std::uint32_t points = 0;
  std::uint32_t steps = 0;
  std::uint64_t digest = 0;  // of all choices and all values read: equal runs agree
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual Outcome run(const RunSpec& spec) = 0;
};

}  // namespace ringfence::schedule

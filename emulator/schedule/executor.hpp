#pragma once
// Runs a program once. Two implementations (emulator/ranks): one process a rank, or all inline;
// the same specification gives the same outcome in both.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/machine/event.hpp"
#include "emulator/machine/trail.hpp"
#include "emulator/schedule/decision.hpp"
#include "emulator/schedule/errors.hpp"
#include "emulator/schedule/execution.hpp"
#include "emulator/schedule/faults.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::schedule {

// Something that befalls a rank's process, which no replay repeats (for faults that are choices of
// the run see faults.hpp), at the first point of one of its agents at or after
// `point` (counted over all ranks; over the rank's own accesses in a free run). At most one a run.
struct Fault {
  enum class Kind : std::uint8_t { kill, pause };  // SIGKILL, SIGSTOP
  Kind kind = Kind::kill;
  std::uint16_t rank = 0;
  std::uint32_t point = 0;
};

struct RunSpec {
  machine::Policy policy;
  StrategySpec strategy;
  std::vector<Decision> decisions;  // for StrategySpec::Kind::replay
  std::vector<machine::FindingKind> ignore;
  std::uint32_t expected_points = 0;
  std::uint32_t point_limit = 1u << 22;
  const Profile* profile = nullptr;  // for strategies that weigh events; the caller keeps it
  bool take_profile = false;         // Outcome::seen
  bool trail = false;                // Outcome::fingerprint and pairs
  bool history = false;              // record every event (slow; for stories)
  // Weak accesses are points too: other agents may step there. So they are if races are ignored.
  bool weak_points = false;
  // Rank processes run concurrently and nobody is picked; choices are their defaults and two runs
  // may differ. The inline executor takes the default schedule instead.
  bool free_running = false;
  std::vector<Fault> faults;  // of processes; the inline executor has none to hit
  bool survive = false;       // a deadlock is a finding after a kill or a restart too
};

// Whether a run goes on past data races, so that weak accesses can tell an order.
inline bool passes_over_races(const RunSpec& spec) {
  return std::find(spec.ignore.begin(), spec.ignore.end(), machine::FindingKind::data_race) !=
         spec.ignore.end();
}

// An agent that could not go on when a run ended in a deadlock; hosts that wait for it are left
// out.
struct StuckAgent {
  std::uint64_t label = 0;
  AgentStatus status = AgentStatus::awaiting;
  AwaitInfo await;                // if status is awaiting
  std::uint64_t value_there = 0;  // the newest value of the awaited slot
  std::uint32_t last_step = 0;
};

// A rank process that ended, or stopped answering, in the middle of a run: something that befell
// the process, and no finding.
struct LostRank {
  std::uint16_t rank = 0;
  std::uint32_t last_step = 0;
  std::string last_agent;
  int wait_status = 0;  // as waitpid gives it; meaningless if `stalled`
  bool stalled = false;
  double seconds = 0;  // by the clock since its last step, if `stalled`

  // The process failed by itself: a fault of ringfence, not of whoever kills processes.
  bool crashed() const;
};

struct Outcome {
  RunEnd end = RunEnd::complete;
  std::vector<machine::Finding> findings;  // empty: the run is clean (if end is complete)
  std::vector<Decision> decisions;
  std::vector<StuckAgent> stuck;  // by label
  std::vector<LostRank> lost;
  std::vector<AppliedFault> faults;     // those that the strategy drew and that took effect
  bool survive = false;                 // as RunSpec's
  std::vector<machine::Event> history;  // if asked for
  // If a trail was asked for (machine::Trail): equal for schedules that only order independent
  // steps otherwise; which lines' writes which lines read; and Trail::reads.
  std::uint64_t fingerprint = 0;
  std::vector<machine::Trail::Pair> pairs;
  std::vector<std::uint64_t> reads;
  std::vector<SeenAccess> seen;  // if a profile was asked for
  std::uint32_t points = 0;
  std::uint32_t steps = 0;
  std::uint64_t digest = 0;  // of all choices and all values read: equal runs agree
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Throws ProgramError. The next run starts afresh, whatever became of this one.
  virtual Outcome run(const RunSpec& spec) = 0;
};

}  // namespace ringfence::schedule

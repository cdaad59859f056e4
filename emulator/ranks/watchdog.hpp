#pragma once
// The parent's view of its ranks: waits for the end of a run, and notices a rank that is dead or
// makes no step.
//
// A rank is stalled when it owes a step, makes none, and has had what it needs for one: processor
// time while it can run, wall time while it sleeps or is stopped. A rank that a busy machine does
// not let run is not stalled, however long that takes.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "emulator/ranks/pool_state.hpp"

namespace ringfence::ranks {

struct Loss {
  std::uint16_t rank = 0;
  int wait_status = 0;
  bool stalled = false;
  double seconds = 0;  // of wall time since its last step, if stalled
};

class Watchdog {
 public:
  Watchdog(PoolState& pool, std::chrono::milliseconds stall) : pool_(pool), stall_(stall) {}

  // Returns when the run is over and all ranks have cleaned up, or with the ranks that were lost:
  // those that died are reaped and their entry in `pids` is 0. A signal or the end of the time
  // (schedule::must_stop) stops the run.
  std::vector<Loss> wait(std::vector<pid_t>& pids);

 private:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;
  struct Seen {
    std::uint32_t beat = 0;
    Clock::time_point since;  // when it made its last step
    Clock::time_point looked;
    Duration used{};     // of the processor, when it was looked at last
    Duration without{};  // it could have made a step for so long
  };

  std::vector<Loss> dead(std::vector<pid_t>& pids) const;
  std::vector<Loss> stalled(const std::vector<pid_t>& pids);
  bool owes_a_step(std::uint16_t rank) const;
  void stop();

  PoolState& pool_;
  std::chrono::milliseconds stall_;
  std::vector<Seen> seen_;
};

}  // namespace ringfence::ranks

#pragma once
// The parent's view of its ranks: waits for the end of a run, and notices a rank that is dead or
// makes no step.

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
};

class Watchdog {
 public:
  Watchdog(PoolState& pool, std::chrono::milliseconds stall) : pool_(pool), stall_(stall) {}

  // Returns when the run is over and all ranks have cleaned up, or with the ranks that were lost:
  // those that died are reaped and their entry in `pids` is 0. A Ctrl-C stops the run.
  std::vector<Loss> wait(std::vector<pid_t>& pids);

 private:
  using Clock = std::chrono::steady_clock;
  struct Seen {
    std::uint32_t beat = 0;
    Clock::time_point since;
  };

  std::vector<Loss> dead(std::vector<pid_t>& pids) const;
  std::vector<Loss> stalled();
  bool owes_a_step(std::uint16_t rank) const;
  void stop();

  PoolState& pool_;
  std::chrono::milliseconds stall_;
  std::vector<Seen> seen_;
};

}  // namespace ringfence::ranks

#pragma once
// The life of one rank's process.

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "emulator/ranks/free_gate.hpp"
#include "emulator/ranks/pool_state.hpp"
#include "emulator/schedule/program.hpp"
#include "emulator/schedule/runtime.hpp"

namespace ringfence::ranks {

class RankProcess {
 public:
  RankProcess(PoolState& pool, schedule::Program& program, std::uint16_t rank, int core);

  // In the forked child: serves its bell until the phase is `quit`, then leaves the process.
  [[noreturn]] static void main(PoolState& pool, schedule::Program& program, std::uint16_t rank,
                                int core, pid_t parent) noexcept;

 private:
  void serve();
  void await_bell();
  void join_run(bool free);
  void controlled();
  void free();
  void clean_up();
  void bind(bool to_core);

  PoolState& pool_;
  schedule::Execution& execution_;
  RankSlot& slot_;
  std::uint16_t rank_;
  int core_;
  bool bound_ = false;
  int spins_ = 0;
  cpu_set_t all_cores_;
  std::uint32_t run_ = 0;
  schedule::Runtime runtime_;
  FreeGate gate_;
  std::vector<schedule::AgentId> ready_;
};

}  // namespace ringfence::ranks

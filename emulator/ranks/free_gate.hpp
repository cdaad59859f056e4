#pragma once
// How the ranks of a free run take turns at the machine.
//
// The machine is not synchronised, so a lock surrounds every access. Under contention a lock that
// changes hands at every access would cost a context switch each; so the lock goes with a lease:
// the rank that holds the lease passes the lock for a batch of accesses, and the others stay away
// as long. A leaseholder that is off computing, or is stopped, loses the lease after a while: it
// cannot hold up the others unless it was stopped in the middle of an access.

#include <cstdint>

#include "emulator/ranks/pool_state.hpp"

namespace ringfence::ranks {

class FreeGate final : public schedule::Gate {
 public:
  FreeGate(PoolState& pool, std::uint32_t rank) : pool_(pool), state_(pool.gate), rank_(rank) {}

  void begin_run() {
    batch_ = accesses_ = 0;
    gave_up_ = false;
  }
  void enter() override;
  void leave() override;
  // Gives the lease up, before the rank waits for its bell.
  void rest();

 private:
  void await_lease();

  PoolState& pool_;
  GateState& state_;
  std::uint32_t rank_;
  std::uint32_t batch_ = 0;
  bool gave_up_ = false;        // the lease, for others that wait
  std::uint32_t accesses_ = 0;  // of this rank in this run
};

}  // namespace ringfence::ranks

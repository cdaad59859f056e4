#pragma once
// What the processes of a pool of ranks tell each other, besides the run's own state. All of it
// lies in the shared segment.

#include <atomic>
#include <cstdint>

#include "emulator/ranks/futex.hpp"
#include "emulator/schedule/run_state.hpp"
#include "emulator/schedule/runtime.hpp"

namespace ringfence::ranks {

inline constexpr std::uint32_t kNobody = ~std::uint32_t{0};

// What a rank does when its bell rings.
enum class Phase : std::uint32_t {
  controlled,  // it has the turn
  free,        // it runs its agents, as all ranks do
  unwinding,   // the run is over: it ends what it has in progress
  quit,
};

struct alignas(64) RankSlot {
  // Written by whoever wants the rank to look at the phase; the rank waits for it to move.
  std::atomic<std::uint32_t> bell{0};
  std::atomic<std::uint32_t> answered{0};  // the last bell that the rank reacted to
  std::atomic<std::uint32_t> asleep{0};
  std::atomic<std::uint32_t> cleaned{0};  // the last run after which the rank has cleaned up
  // Written by the rank, read by the watchdog.
  alignas(64) schedule::Progress progress;
  std::atomic<bool> idle{false};     // free run: no agent is ready
  std::atomic<bool> at_gate{false};  // free run: waits to be let to the machine
};

// The lock of a free run; see FreeGate.
struct alignas(64) GateState {
  std::atomic<std::uint32_t> lock{0};  // 0 open, 1 held, 2 held and waited for
  std::atomic<std::uint32_t> holder{kNobody};
  std::atomic<std::uint32_t> lease{kNobody};
  std::atomic<std::uint32_t> waiting{0};  // ranks that wait for the lease
  std::uint32_t idle = 0;                 // ranks without ready agents; under the lock
};

struct PoolState {
  schedule::RunState* run = nullptr;
  std::uint16_t ranks = 0;
  RankSlot* slots = nullptr;
  // Phase and run in one word, set once all else of the run is: a rank that answers an old bell
  // late sees either the old run, in which it has nothing left to do, or the new one whole.
  std::atomic<std::uint64_t> command{0};
  std::atomic<std::uint32_t> turn{kNobody};  // controlled: the rank that steps
  std::atomic<std::uint32_t> unclean{0};     // ranks that have yet to clean up
  std::atomic<std::uint32_t> done{0};        // the parent waits for 1
  // What a rank's code threw; written once a run by the rank that sets `failed` first.
  std::atomic<bool> failed{false};
  std::atomic<schedule::Thrown> thrown{schedule::Thrown::nothing};
  char error[512] = {};
  // A fault of a free run (a controlled one's is the execution's hook): the rank's own access.
  void (*fault)() = nullptr;
  std::uint32_t fault_rank = kNobody;
  std::uint32_t fault_point = 0;
  GateState gate;

  Phase phase() const { return static_cast<Phase>(command.load(std::memory_order_acquire) & 3); }
  std::uint32_t run_number() const {
    return static_cast<std::uint32_t>(command.load(std::memory_order_acquire) >> 2);
  }
  void set_command(std::uint32_t run, Phase phase) {
    command.store(std::uint64_t{run} << 2 | static_cast<std::uint64_t>(phase),
                  std::memory_order_release);
  }

  void ring(std::uint32_t rank) {
    RankSlot& s = slots[rank];
    s.bell.fetch_add(1, std::memory_order_seq_cst);
    if (s.asleep.load(std::memory_order_seq_cst) != 0) futex_wake(s.bell, 1);
  }
  void ring_all_but(std::uint32_t rank) {
    for (std::uint32_t r = 0; r < ranks; ++r) {
      if (r != rank) ring(r);
    }
  }
  void tell_parent() {
    done.store(1, std::memory_order_release);
    futex_wake(done, 1);
  }
};

}  // namespace ringfence::ranks

#pragma once
// The two executors: all ranks inline, or one process a rank. The same specification gives the
// same decisions, digest and findings in both (free runs excepted).

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"

namespace ringfence::ranks {

struct ProcessOptions {
  // A rank that makes no step for so long while it is its turn (in a free run: while it has agents
  // that are ready) counts as lost: so long of processor time, or of the clock while it sleeps
  // (watchdog.hpp).
  std::chrono::milliseconds stall{10000};
  // Bytes of the shared segment; 0: by Program::shared_bytes, as far as memory is available. Pages
  // that nobody touched cost nothing.
  std::uint64_t segment_bytes = 0;
  // Controlled runs keep all ranks on one core, where handing on the turn is cheapest. -1: a core
  // chosen so that pools made one after the other use different ones; -2: not bound to a core.
  int core = -1;
};

// The segment does not fit into memory, or the program into the segment. what(): asked and
// available.
class SegmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The program is set up by the call and has to outlive the executor, and its results live as long
// as the executor. `processes` forks the ranks at the first run, from the thread that calls it, and
// they die with that thread; after a run in which a rank was lost, the program is set up anew.
std::unique_ptr<schedule::Executor> make_inline(schedule::Program& program);
std::unique_ptr<schedule::Executor> make_processes(schedule::Program& program,
                                                   const ProcessOptions& options = {});

}  // namespace ringfence::ranks

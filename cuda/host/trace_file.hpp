// `gpu run --trace`: the barrier's signal events of a run as a file, and whether they are an
// execution that the slots' rules allow.
#pragma once

#include <string>
#include <vector>

#include "cuda/host/device_buffer.hpp"
#include "cuda/host/run_options.hpp"
#include "cuda/kernels/spin.hpp"

namespace ringfence::cuda {

class Session;

/// What a slot allows: puts and waits alternate, beginning with a put; a wait consumes the put
/// before it, so it cannot end before that put began; and a put finds the slot free, so it cannot
/// end before the wait that freed it began. Events of one GPU have one clock. Each rank and block
/// must have as many puts as waits at each slot. Returns one line for each violation.
std::vector<std::string> check_signal_events(std::vector<SignalEvent> events, int world);

/// Logs the events of all calls of a session.
class TraceRecorder {
 public:
  TraceRecorder(Session& session, const RunOptions& options);

  /// Writes the file (JSON Lines: a header, the events by time, the verdict) on the root and returns
  /// the violations. In a run over several processes each rank sees its own events only, so the file
  /// is rank 0's and the rules that need both sides are not checked.
  std::vector<std::string> write_and_check(Session& session);

 private:
  RunOptions options_;
  DeviceBuffer events_;
  uint32_t capacity_ = 0;
};

}  // namespace ringfence::cuda

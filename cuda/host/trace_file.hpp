// `gpu run --trace`: the signal events of a run as a file of the trace family (JSON Lines), and
// whether they are an execution that the protocol and the memory model allow (trace_check.hpp).
//
//   {"ringfence-gpu-trace":1,"ringfence":"0.1.0","config":{"protocol":"tokenweave","ranks":4,...},
//    "boundary":"coherent","seed":1,"executor":"gpu","clock":"one",
//    "rules":["pairing","reads-from",...]}                                          (one line)
//   {"agent":"r1.c0.b2.t3","op":"end put","pad":3,"slot":9,"order":"release","value":[0,1],
//    "begin_ns":1200,"end_ns":1984}
//   {"agent":"r3.c0.b2.t1","op":"end wait","pad":3,"slot":9,"order":"acquire","value":[1,0],
//    "from":17,"begin_ns":1216,"end_ns":2016}                from: the put that it reads from
//   {"verdict":"pass","events":384,"faults":[]}
//
// The head has the keys of an emulator's trace but another first key: a record of what the hardware
// did is no list of choices, and `ringfence replay` refuses it. Events are in the order of their
// begin, numbered from 0 in that order; times count from the first. A thread number is the peer's,
// as thread t of a block signals rank t; of pypto one thread waits for all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/host/run_options.hpp"
#include "cuda/kernels/spin.hpp"

namespace ringfence::cuda {

class Session;

/// The file's text. `faults`: what the check found.
std::string trace_text(const RunOptions& options, int world, bool one_clock,
                       const std::vector<SignalEvent>& events,
                       const std::vector<std::string>& faults);

/// Logs the events of all calls of a session.
class TraceRecorder {
 public:
  /// Throws Error(invalid_argument) where the log would take more than 1 GiB.
  TraceRecorder(Session& session, const RunOptions& options);

  /// Collective. Brings all processes' events together; on the root writes the file and returns the
  /// violations, elsewhere nothing. Throws Error(invalid_argument) where the file cannot be
  /// written.
  std::vector<std::string> write_and_check(Session& session);

 private:
  struct FreePinned {
    void operator()(SignalEvent* events) const;
  };
  RunOptions options_;
  // In host memory that all devices of the process can write, and that outlives a launch that
  // hangs.
  std::unique_ptr<SignalEvent, FreePinned> events_;
  uint32_t capacity_ = 0;
};

}  // namespace ringfence::cuda

#pragma once
// Ctrl-C: a flag that every executor looks at. Whoever owns the process (the command line) decides
// whether signals set it; the library installs no handler by itself.

namespace ringfence::schedule {

// Async-signal-safe. Runs end as RunEnd::stopped until clear_interrupt.
void interrupt() noexcept;
void clear_interrupt() noexcept;
bool interrupted() noexcept;

// While it lives, SIGINT and SIGTERM call interrupt(); the second SIGINT kills as usual.
class InterruptOnSignals {
 public:
  InterruptOnSignals();
  ~InterruptOnSignals();
  InterruptOnSignals(const InterruptOnSignals&) = delete;
  InterruptOnSignals& operator=(const InterruptOnSignals&) = delete;
};

}  // namespace ringfence::schedule

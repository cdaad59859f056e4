#pragma once
// What ends a search before it is done: a signal, or the time that it was given. Both are flags
// that every executor looks at. Whoever owns the process (the command line) decides whether signals
// set theirs; the library installs no handler for them by itself.

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string_view>

namespace ringfence::schedule {

namespace detail {
inline constexpr unsigned kInterrupted = 1, kTimeOver = 2;
extern std::atomic<unsigned> stop_reasons;
}  // namespace detail

// Async-signal-safe. Runs end as RunEnd::stopped until clear_interrupt.
void interrupt() noexcept;
void clear_interrupt() noexcept;
inline bool interrupted() noexcept {
  return (detail::stop_reasons.load(std::memory_order_relaxed) & detail::kInterrupted) != 0;
}
// Of the innermost TimeLimit, while it lives.
inline bool time_is_over() noexcept {
  return (detail::stop_reasons.load(std::memory_order_relaxed) & detail::kTimeOver) != 0;
}
// Either: whatever goes on for long looks at it and comes to an end with what there is.
inline bool must_stop() noexcept {
  return detail::stop_reasons.load(std::memory_order_relaxed) != 0;
}

// Thrown by long work that has nothing to show before it is whole (inputs, expected results).
class StopRequested : public std::runtime_error {
 public:
  StopRequested() : std::runtime_error("stopped before it was done") {}
};
inline void throw_if_stopped() {
  if (must_stop()) throw StopRequested();
}

// While it lives, time_is_over() after so many seconds of wall time; 0: no limit of its own. Limits
// nest: an inner one ends no later than those around it. One thread makes them, by SIGALRM.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  // Whether this one's time is over, rather than an inner one's.
  bool over() const noexcept;

 private:
  TimeLimit* outer_;
  long long deadline_;  // nanoseconds of the steady clock
};

// What the process says when it has to end itself because nothing else came to an end; see
// InterruptOnSignals.
struct LastWords {
  int interrupted_status = 4;  // exit statuses
  int time_status = 3;
};

// While it lives, SIGINT, SIGTERM and SIGHUP call interrupt(); the second SIGINT kills as usual. A
// signal that is ignored (nohup) stays so. With `last`, a process that is still there `kGrace`
// after a signal, or after the outermost TimeLimit, is ended from the handler, with one line on
// standard error and that status; not while an Unbroken lives.
class InterruptOnSignals {
 public:
  InterruptOnSignals() : InterruptOnSignals(nullptr) {}
  explicit InterruptOnSignals(const LastWords* last);
  ~InterruptOnSignals();
  InterruptOnSignals(const InterruptOnSignals&) = delete;
  InterruptOnSignals& operator=(const InterruptOnSignals&) = delete;
};

// The status with which the process ends itself once its time is over: a finding that was told
// stays one.
void set_time_status(int status) noexcept;

// What is better finished than left: files that are being written.
class Unbroken {
 public:
  Unbroken() noexcept;
  ~Unbroken();
  Unbroken(const Unbroken&) = delete;
  Unbroken& operator=(const Unbroken&) = delete;
};

}  // namespace ringfence::schedule

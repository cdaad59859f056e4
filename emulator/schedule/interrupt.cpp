#include "emulator/schedule/interrupt.hpp"

#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>

namespace ringfence::schedule {

namespace detail {
std::atomic<unsigned> stop_reasons{0};
static_assert(std::atomic<unsigned>::is_always_lock_free);
}  // namespace detail

namespace {

using Nanoseconds = long long;
constexpr Nanoseconds kSecond = 1000000000;
constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
// From the wish to stop to the end of a process that does not come to it. A second is promised.
constexpr Nanoseconds kGrace = 700000000;
// Results are worth waiting for where a busy machine leaves the process no processor: so long, and
// no longer, after the time was over.
constexpr Nanoseconds kMostGrace = 5 * kSecond;
// When to look again.
constexpr Nanoseconds kRetry = 50000000;

// Read and written by handlers, so all lock-free.
std::atomic<Nanoseconds> innermost{kNever}, outermost{kNever};  // deadlines of limits
std::atomic<Nanoseconds> last_moment{kNever};                   // when the process ends itself
std::atomic<Nanoseconds> used_then{0};                          // processor time at that wish
std::atomic<int> unbroken{0};
std::atomic<int> time_status{3}, interrupted_status{4};
std::atomic<bool> has_last_words{false};
static_assert(std::atomic<Nanoseconds>::is_always_lock_free);
TimeLimit* current = nullptr;

constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, kSignals.size()> old_actions;

Nanoseconds now() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

Nanoseconds used() noexcept {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

void set_alarm(Nanoseconds after) noexcept {
  after = std::max<Nanoseconds>(after, 1000);  // 0 would turn it off
  const itimerval value{
      {0, 0},
      {static_cast<time_t>(after / kSecond), static_cast<suseconds_t>(after % kSecond / 1000)}};
  setitimer(ITIMER_REAL, &value, nullptr);
}

void no_alarm() noexcept {
  const itimerval off{};
  setitimer(ITIMER_REAL, &off, nullptr);
}

// The next thing that the alarm is for.
void arm() noexcept {
  const Nanoseconds limit = time_is_over() ? kNever : innermost.load(std::memory_order_relaxed);
  const Nanoseconds next = std::min(limit, last_moment.load(std::memory_order_relaxed));
  if (next == kNever) return no_alarm();
  set_alarm(next - now());
}

void end_soon() noexcept {
  if (!has_last_words.load(std::memory_order_relaxed)) return;
  Nanoseconds none = kNever;
  if (last_moment.compare_exchange_strong(none, now() + kGrace)) used_then.store(used());
}

[[noreturn]] void end_now() noexcept {
  // Ranks die with the process (rank_process.cpp).
  const bool by_signal = interrupted();
  const std::string_view line = by_signal
                                    ? "ringfence: interrupted\n"
                                    : "ringfence: UNKNOWN: the time ran out before this was done\n";
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  ::_exit(by_signal ? interrupted_status.load() : time_status.load());
}

bool may_wait(Nanoseconds at) noexcept {
  if (unbroken.load() != 0) return true;  // a file is being written
  return !interrupted() && used() - used_then.load() < kGrace &&
         at < outermost.load(std::memory_order_relaxed) + kMostGrace;
}

void on_alarm(int) {
  const Nanoseconds at = now();
  if (innermost.load(std::memory_order_relaxed) <= at) {
    detail::stop_reasons.fetch_or(detail::kTimeOver, std::memory_order_relaxed);
  }
  if (outermost.load(std::memory_order_relaxed) <= at) end_soon();
  if (last_moment.load(std::memory_order_relaxed) <= at) {
    if (!may_wait(at)) end_now();
    last_moment.store(at + kRetry);
  }
  arm();
}

struct sigaction alarm_before = {};  // of the process, while a TimeLimit lives

void catch_alarm(struct sigaction* before = nullptr) noexcept {
  struct sigaction action = {};
  action.sa_handler = on_alarm;
  sigemptyset(&action.sa_mask);
  action.sa_flags = static_cast<int>(SA_RESTART);
  sigaction(SIGALRM, &action, before);
}

void on_signal(int) {
  interrupt();
  end_soon();
  arm();
}

}  // namespace

void interrupt() noexcept {
  detail::stop_reasons.fetch_or(detail::kInterrupted, std::memory_order_relaxed);
}
void clear_interrupt() noexcept {
  detail::stop_reasons.fetch_and(~detail::kInterrupted, std::memory_order_relaxed);
}

// -- time -----------------------------------------------------------------------------------------

TimeLimit::TimeLimit(double seconds) : outer_(current), deadline_(kNever) {
  constexpr double kMost = 1e9;  // 30 years
  if (seconds > 0) {
    deadline_ = now() + static_cast<Nanoseconds>(std::min(seconds, kMost) * kSecond);
  }
  if (outer_ != nullptr) deadline_ = std::min(deadline_, outer_->deadline_);
  current = this;
  if (outer_ == nullptr) catch_alarm(&alarm_before);
  innermost.store(deadline_, std::memory_order_relaxed);
  if (outer_ == nullptr) outermost.store(deadline_, std::memory_order_relaxed);
  arm();
}

TimeLimit::~TimeLimit() {
  current = outer_;
  innermost.store(outer_ != nullptr ? outer_->deadline_ : kNever, std::memory_order_relaxed);
  if (outer_ == nullptr || !outer_->over()) {
    detail::stop_reasons.fetch_and(~detail::kTimeOver, std::memory_order_relaxed);
  }
  if (outer_ == nullptr) {
    outermost.store(kNever, std::memory_order_relaxed);
    if (!interrupted()) last_moment.store(kNever, std::memory_order_relaxed);
  }
  arm();
  if (outer_ == nullptr) sigaction(SIGALRM, &alarm_before, nullptr);
}

bool TimeLimit::over() const noexcept { return deadline_ <= now(); }

void set_time_status(int status) noexcept { time_status.store(status); }

// -- signals --------------------------------------------------------------------------------------

InterruptOnSignals::InterruptOnSignals(const LastWords* last) {
  if (last != nullptr) {
    interrupted_status.store(last->interrupted_status);
    time_status.store(last->time_status);
    has_last_words.store(true);
    catch_alarm();
  }
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    // A second Ctrl-C is not ignored.
    action.sa_flags = kSignals[i] == SIGINT ? static_cast<int>(SA_RESETHAND) : 0;
    sigaction(kSignals[i], &action, &old_actions[i]);
    if (kSignals[i] == SIGHUP && old_actions[i].sa_handler == SIG_IGN) {
      sigaction(kSignals[i], &old_actions[i], nullptr);
    }
  }
}

InterruptOnSignals::~InterruptOnSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &old_actions[i], nullptr);
  }
  has_last_words.store(false);
  last_moment.store(kNever);
  arm();
}

Unbroken::Unbroken() noexcept { unbroken.fetch_add(1); }
Unbroken::~Unbroken() { unbroken.fetch_sub(1); }

}  // namespace ringfence::schedule

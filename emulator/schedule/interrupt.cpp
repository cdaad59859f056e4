#include "emulator/schedule/interrupt.hpp"

#include <signal.h>

#include <atomic>

namespace ringfence::schedule {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);
struct sigaction old_int, old_term;

void on_signal(int) { interrupt(); }

}  // namespace

void interrupt() noexcept { flag.store(true, std::memory_order_relaxed); }
void clear_interrupt() noexcept { flag.store(false, std::memory_order_relaxed); }
bool interrupted() noexcept { return flag.load(std::memory_order_relaxed); }

InterruptOnSignals::InterruptOnSignals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second Ctrl-C is not ignored
  sigaction(SIGINT, &action, &old_int);
  action.sa_flags = 0;
  sigaction(SIGTERM, &action, &old_term);
}

InterruptOnSignals::~InterruptOnSignals() {
  sigaction(SIGINT, &old_int, nullptr);
  sigaction(SIGTERM, &old_term, nullptr);
}

}  // namespace ringfence::schedule

#include "emulator/ranks/watchdog.hpp"

#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>

#include "emulator/schedule/interrupt.hpp"

namespace ringfence::ranks {
namespace {

// How often the ranks are looked at while a run goes on.
constexpr std::chrono::milliseconds kTick{50};
// What one look counts for at most: the parent may have been kept from looking itself.
constexpr std::chrono::milliseconds kMostTick = 2 * kTick;

// Processor time that a process has used.
std::chrono::nanoseconds used_by(pid_t pid) {
  clockid_t clock{};
  timespec t{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return {};
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

// Whether a process is on a processor or waits for one (or for memory to be read in): Linux's state
// letter, behind the name in parentheses.
bool wants_to_run(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(in, line);
  const std::size_t name = line.rfind(')');
  if (name == std::string::npos || name + 2 >= line.size()) return true;
  const char state = line[name + 2];
  return state == 'R' || state == 'D';
}

}  // namespace

std::vector<Loss> Watchdog::wait(std::vector<pid_t>& pids) {
  bool stopped = false;
  seen_.clear();
  while (pool_.done.load(std::memory_order_acquire) == 0) {
    futex_wait(pool_.done, 0, kTick);
    if (pool_.done.load(std::memory_order_acquire) != 0) break;
    if (schedule::must_stop() && !stopped) {
      stopped = true;
      stop();
    }
    if (std::vector<Loss> lost = dead(pids); !lost.empty()) return lost;
    if (std::vector<Loss> lost = stalled(pids); !lost.empty()) return lost;
  }
  return {};
}

void Watchdog::stop() {
  schedule::Execution& execution = pool_.run->execution();
  execution.request_stop();
  if (pool_.phase() == Phase::free) {
    execution.finish(schedule::RunEnd::stopped);
    pool_.ring_all_but(kNobody);
  }
}

std::vector<Loss> Watchdog::dead(std::vector<pid_t>& pids) const {
  std::vector<Loss> lost;
  for (std::uint16_t r = 0; r < pids.size(); ++r) {
    int status = 0;
    const pid_t found = waitpid(pids[r], &status, WNOHANG);
    if (found == 0) continue;
    // Somebody else's waitpid may have taken the status (ECHILD): dead all the same.
    lost.push_back({r, found == pids[r] ? status : 0, false, 0});
    pids[r] = 0;
  }
  return lost;
}

// Whether it is up to `rank` that the run goes on.
bool Watchdog::owes_a_step(std::uint16_t rank) const {
  const RankSlot& s = pool_.slots[rank];
  switch (pool_.phase()) {
    case Phase::controlled:
      return pool_.turn.load(std::memory_order_acquire) == rank;
    case Phase::unwinding:
      return s.cleaned.load(std::memory_order_relaxed) != pool_.run_number();
    case Phase::free: {
      const std::uint32_t holder = pool_.gate.holder.load(std::memory_order_relaxed);
      if (s.at_gate.load(std::memory_order_relaxed)) return holder == kNobody;
      // An idle rank owes nothing, unless it was called and does not come.
      return !s.idle.load(std::memory_order_relaxed) || s.answered.load() != s.bell.load();
    }
    case Phase::quit:
      return false;
  }
  return false;
}

std::vector<Loss> Watchdog::stalled(const std::vector<pid_t>& pids) {
  const auto now = Clock::now();
  if (seen_.empty()) seen_.resize(pool_.ranks, {0, now, now, {}, {}});
  std::vector<Loss> lost;
  for (std::uint16_t r = 0; r < pool_.ranks; ++r) {
    Seen& seen = seen_[r];
    const std::uint32_t beat = pool_.slots[r].progress.beat.load(std::memory_order_relaxed);
    const Duration used = used_by(pids[r]);
    if (beat != seen.beat || !owes_a_step(r)) {
      seen = {beat, now, now, used, {}};
      continue;
    }
    // A rank that sleeps, or that somebody stopped, uses no processor and comes to no step either.
    seen.without +=
        wants_to_run(pids[r]) ? used - seen.used : std::min<Duration>(now - seen.looked, kMostTick);
    seen.looked = now;
    seen.used = used;
    if (seen.without < stall_) continue;
    lost.push_back({r, 0, true, std::chrono::duration<double>(now - seen.since).count()});
  }
  return lost;
}

}  // namespace ringfence::ranks

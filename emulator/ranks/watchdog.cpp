#include "emulator/ranks/watchdog.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "emulator/schedule/interrupt.hpp"

namespace ringfence::ranks {
namespace {

// How often the ranks are looked at while a run goes on.
constexpr std::chrono::milliseconds kTick{50};

}  // namespace

std::vector<Loss> Watchdog::wait(std::vector<pid_t>& pids) {
  bool stopped = false;
  seen_.clear();
  while (pool_.done.load(std::memory_order_acquire) == 0) {
    futex_wait(pool_.done, 0, kTick);
    if (pool_.done.load(std::memory_order_acquire) != 0) break;
    if (schedule::interrupted() && !stopped) {
      stopped = true;
      stop();
    }
    if (std::vector<Loss> lost = dead(pids); !lost.empty()) return lost;
    if (std::vector<Loss> lost = stalled(); !lost.empty()) return lost;
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
    lost.push_back({r, found == pids[r] ? status : 0, false});
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

std::vector<Loss> Watchdog::stalled() {
  const auto now = Clock::now();
  if (seen_.empty()) seen_.resize(pool_.ranks, {0, now});
  std::vector<Loss> lost;
  for (std::uint16_t r = 0; r < pool_.ranks; ++r) {
    const std::uint32_t beat = pool_.slots[r].progress.beat.load(std::memory_order_relaxed);
    if (beat != seen_[r].beat || !owes_a_step(r)) seen_[r] = {beat, now};
    if (now - seen_[r].since >= stall_) lost.push_back({r, 0, true});
  }
  return lost;
}

}  // namespace ringfence::ranks

#include "emulator/ranks/rank_process.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "emulator/ranks/process_title.hpp"

namespace ringfence::ranks {
namespace {

// How often a rank looks at its bell before it sleeps, if all ranks have a core to themselves.
constexpr int kSpins = 4000;

void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

void become_rank(std::uint16_t rank, pid_t parent) {
  // A Ctrl-C goes to the whole process group, as do the SIGTERM of timeout(1) and of batch systems
  // and the SIGHUP of a terminal that is closed; the parent sees to it that ranks end in order. A
  // rank that such a signal ended would be told as lost: a finding that is none.
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  // Handlers of the parent's own are not for its ranks: the watchdog tells how they ended.
  for (const int s : {SIGCHLD, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    signal(s, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(EXIT_FAILURE);  // it died before we could ask to be told
  set_process_title("ringfence rank " + std::to_string(rank));
}

}  // namespace

RankProcess::RankProcess(PoolState& pool, schedule::Program& program, std::uint16_t rank, int core)
    : pool_(pool),
      execution_(pool.run->execution()),
      slot_(pool.slots[rank]),
      rank_(rank),
      core_(core),
      runtime_(execution_, program, rank, 1),
      gate_(pool, rank) {
  CPU_ZERO(&all_cores_);
  sched_getaffinity(0, sizeof all_cores_, &all_cores_);
  if (CPU_COUNT(&all_cores_) > pool.ranks) spins_ = kSpins;
}

void RankProcess::main(PoolState& pool, schedule::Program& program, std::uint16_t rank, int core,
                       pid_t parent) noexcept {
  become_rank(rank, parent);
  RankProcess(pool, program, rank, core).serve();
  _exit(EXIT_SUCCESS);
}

void RankProcess::serve() {
  for (;;) {
    await_bell();
    switch (pool_.phase()) {
      case Phase::controlled:
        controlled();
        break;
      case Phase::free:
        free();
        break;
      case Phase::unwinding:
        clean_up();
        break;
      case Phase::quit:
        return;
    }
  }
}

void RankProcess::await_bell() {
  const std::uint32_t last = slot_.answered.load(std::memory_order_relaxed);
  const auto rung = [&] { return slot_.bell.load(std::memory_order_seq_cst) != last; };
  if (!bound_) {
    for (int i = 0; i < spins_ && !rung(); ++i) pause_core();
  }
  if (!rung()) {
    slot_.asleep.store(1, std::memory_order_seq_cst);
    while (!rung()) futex_wait(slot_.bell, last);
    slot_.asleep.store(0, std::memory_order_relaxed);
  }
  slot_.answered.store(slot_.bell.load(std::memory_order_acquire), std::memory_order_relaxed);
}

void RankProcess::bind(bool to_core) {
  if (core_ < 0 || to_core == bound_) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(core_), &one);
  // Only a matter of speed: where it is not allowed, the kernel places the rank.
  static_cast<void>(sched_setaffinity(0, sizeof one, to_core ? &one : &all_cores_));
  bound_ = to_core;
}

void RankProcess::join_run(bool free) {
  const std::uint32_t run = pool_.run_number();
  if (run == run_) return;
  run_ = run;
  bind(!free);
  gate_.begin_run();
  runtime_.begin_run(&slot_.progress, free ? &gate_ : nullptr);
}

void RankProcess::controlled() {
  // A bell may come late, after the turn went on: whoever has the turn is named.
  if (pool_.turn.load(std::memory_order_acquire) != rank_) return;
  join_run(false);
  runtime_.run_turn();
  switch (execution_.end()) {
    case schedule::RunEnd::running: {
      const std::uint16_t next = execution_.rank_of(execution_.current());
      pool_.turn.store(next, std::memory_order_release);
      pool_.ring(next);
      return;
    }
    case schedule::RunEnd::complete:
      pool_.turn.store(kNobody, std::memory_order_release);  // an old bell must not find it ours
      pool_.tell_parent();
      return;
    default:
      pool_.set_command(run_, Phase::unwinding);
      pool_.ring_all_but(rank_);
      clean_up();
  }
}

void RankProcess::free() {
  // The end of a run rings once more.
  if (slot_.cleaned.load(std::memory_order_relaxed) == pool_.run_number()) return;
  join_run(true);
  while (execution_.running()) {
    gate_.enter();
    auto& inbox = execution_.inbox(rank_);
    if (!inbox.empty()) {
      ready_.assign(inbox.begin(), inbox.end());
      inbox.clear();
      gate_.leave();
      for (std::size_t i = 0; i < ready_.size() && execution_.running(); ++i) {
        runtime_.resume(ready_[i]);
      }
      continue;
    }
    bool nothing_pending = ++pool_.gate.idle == pool_.ranks && execution_.unfinished() > 0;
    for (std::uint16_t r = 0; nothing_pending && r < pool_.ranks; ++r) {
      nothing_pending = execution_.inbox(r).empty();
    }
    if (nothing_pending && execution_.running()) execution_.deadlock();
    slot_.idle.store(true, std::memory_order_relaxed);
    gate_.leave();
    gate_.rest();
    if (execution_.running()) await_bell();
    gate_.enter();
    --pool_.gate.idle;
    slot_.idle.store(false, std::memory_order_relaxed);
    gate_.leave();
  }
  pool_.ring_all_but(rank_);  // whoever sleeps has to clean up too
  clean_up();
}

void RankProcess::clean_up() {
  const std::uint32_t run = pool_.run_number();
  if (slot_.cleaned.load(std::memory_order_relaxed) == run) return;
  // A rank that had no turn in this run still has what it kept of an earlier one: nothing in
  // progress.
  runtime_.unwind();
  if (!runtime_.error().empty() && run_ == run && !pool_.failed.exchange(true)) {
    std::strncpy(pool_.error, runtime_.error().c_str(), sizeof pool_.error - 1);
    pool_.thrown.store(runtime_.thrown(), std::memory_order_relaxed);
  }
  slot_.cleaned.store(run, std::memory_order_release);
  if (pool_.unclean.fetch_sub(1, std::memory_order_acq_rel) == 1) pool_.tell_parent();
}

}  // namespace ringfence::ranks

// Ranks that die, stop answering, or whose parent dies; and Ctrl-C.
#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include <chrono>
#include <cstdlib>
#include <functional>

#include "emulator/ranks/executors.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "tests/ranks/shared_counters.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using namespace ringfence::schedule;
using namespace ringfence::testing;
using namespace std::chrono_literals;

namespace {

RunSpec seeded(std::uint64_t seed, bool free = false) {
  RunSpec spec;
  spec.strategy = {.kind = StrategySpec::Kind::random, .seed = seed};
  spec.free_running = free;
  return spec;
}

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Each rank adds to counter `rank` and its own slot for as long as counter 63 is zero.
HostProgram counting(SharedCounters& shared, std::uint16_t ranks) {
  return HostProgram(ranks, [&shared](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&, rank](Agent& a) {
               while (shared[63] == 0) {
                 store32(a, p.slot(rank, 0), 1, Order::relaxed);
                 shared[rank] = shared[rank] + 1;
               }
             }});
  });
}

}  // namespace

TEST_CASE("a killed rank is reported with its rank, step and signal, and the next run is whole") {
  MiniReduce program({.ranks = 3, .blocks = 1, .threads = 4}),
      same({.ranks = 3, .blocks = 1, .threads = 4});
  const auto executor = ranks::make_processes(program);
  const auto in = ranks::make_inline(same);
  for (const bool free : {false, true}) {
    RunSpec spec = seeded(4, free);
    spec.faults = {{Fault::Kind::kill, 1, 20}};
    Outcome out;
    CHECK(seconds_of([&] { out = executor->run(spec); }) < 2);
    CHECK(out.end == RunEnd::lost);
    CHECK(out.findings.empty());
    CHECK_FALSE(failure(out));
    CHECK(undecided(out));
    REQUIRE(out.lost.size() == 1);
    CHECK_FALSE(out.lost[0].crashed());
    CHECK(out.lost[0].rank == 1);
    CHECK_FALSE(out.lost[0].stalled);
    CHECK(WIFSIGNALED(out.lost[0].wait_status));
    CHECK(WTERMSIG(out.lost[0].wait_status) == SIGKILL);
    CHECK(out.lost[0].last_agent.substr(0, 3) == "r1.");
    CHECK(out.lost[0].last_step > 0);
    CHECK(children_of().empty());
    CHECK(executor->run(seeded(4)).digest == in->run(seeded(4)).digest);
  }
}

TEST_CASE("a rank that is killed between two runs is reported by the next one") {
  MiniReduce program({.ranks = 2, .blocks = 1, .threads = 2});
  const auto executor = ranks::make_processes(program);
  executor->run(seeded(1));
  for (const pid_t pid : children_of()) {
    if (command_line_of(pid) == "ringfence rank 0") kill(pid, SIGKILL);
  }
  Outcome out;
  CHECK(seconds_of([&] { out = executor->run(seeded(2)); }) < 2);
  REQUIRE(out.lost.size() == 1);
  CHECK(out.lost[0].rank == 0);
  CHECK(executor->run(seeded(3)).end == RunEnd::complete);
}

TEST_CASE("a crash in a rank's code is told from a kill, with its exit status or signal") {
  for (const int how : {0, 1}) {
    HostProgram program(2, [how](HostProgram& p, Agent& host, std::uint16_t rank) {
      p.launch(host, rank, {[&p, rank, how](Agent& a) {
                 store32(a, p.slot(0, rank), 1, Order::relaxed);
                 if (rank == 1) how == 0 ? _exit(3) : std::abort();
               }});
    });
    const Outcome out = ranks::make_processes(program)->run(seeded(1));
    REQUIRE(out.lost.size() == 1);
    CHECK(out.lost[0].rank == 1);
    CHECK(out.lost[0].crashed());
    if (how == 0) {
      CHECK(WIFEXITED(out.lost[0].wait_status));
      CHECK(WEXITSTATUS(out.lost[0].wait_status) == 3);
    } else {
      CHECK(WIFSIGNALED(out.lost[0].wait_status));
      CHECK(WTERMSIG(out.lost[0].wait_status) == SIGABRT);
    }
  }
  CHECK(children_of().empty());
}

TEST_CASE("a rank that makes no step when it is its turn is reported as stalled") {
  MiniReduce program({.ranks = 3, .blocks = 1, .threads = 4});
  ranks::ProcessOptions options;
  options.stall = 300ms;
  const auto executor = ranks::make_processes(program, options);
  for (const bool free : {false, true}) {
    RunSpec spec = seeded(4, free);
    spec.faults = {{Fault::Kind::pause, 2, 10}};
    Outcome out;
    const double seconds = seconds_of([&] { out = executor->run(spec); });
    CHECK(seconds > 0.25);
    CHECK(seconds < 2);
    REQUIRE(out.lost.size() == 1);
    CHECK(out.lost[0].rank == 2);
    CHECK(out.lost[0].stalled);
    CHECK(children_of().empty());
    CHECK(executor->run(seeded(5)).end == RunEnd::complete);
  }
}

// Keeps the processor for so much of its own time.
void compute(std::chrono::milliseconds time) {
  const auto used = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  };
  for (const auto end = used() + time; used() < end;) {
  }
}

TEST_CASE(
    "a rank that computes beyond the stall time is stalled, one that tells of itself is not") {
  for (const bool tells : {false, true}) {
    for (const bool free : {false, true}) {
      CAPTURE(tells);
      CAPTURE(free);
      HostProgram program(2, [tells](HostProgram& p, Agent& host, std::uint16_t rank) {
        p.launch(host, rank, {[&p, rank, tells](Agent& a) {
                   store32(a, p.slot(rank, 0), 1, Order::relaxed);
                   for (int i = 0; i < 10 && rank == 1; ++i) {
                     compute(60ms);
                     if (tells) a.still_at_it();
                   }
                 }});
      });
      ranks::ProcessOptions options;
      options.stall = 300ms;
      const Outcome out = ranks::make_processes(program, options)->run(seeded(1, free));
      CHECK(out.end == (tells ? RunEnd::complete : RunEnd::lost));
      if (tells) continue;
      REQUIRE(out.lost.size() == 1);
      CHECK(out.lost[0].rank == 1);
      CHECK(out.lost[0].seconds >= 0.3);
    }
  }
}

TEST_CASE("a rank that the machine does not let run is not stalled, however long that takes") {
  // Of a core that it shares with a crowd a rank gets a tenth; its 150 ms of work take over a
  // second.
  cpu_set_t old, one;
  sched_getaffinity(0, sizeof old, &old);
  CPU_ZERO(&one);
  for (unsigned core = 0; CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &old)) CPU_SET(core, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
  std::vector<pid_t> crowd;
  for (int i = 0; i < 9; ++i) {
    crowd.push_back(fork());
    if (crowd.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
    }
  }
  HostProgram program(2, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&p, rank](Agent& a) {
               compute(150ms);
               store32(a, p.slot(rank, 0), 1, Order::relaxed);
             }});
  });
  ranks::ProcessOptions options;
  options.stall = 400ms;
  options.core = -2;
  Outcome out;
  const double seconds =
      seconds_of([&] { out = ranks::make_processes(program, options)->run(seeded(1)); });
  for (const pid_t pid : crowd) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  sched_setaffinity(0, sizeof old, &old);
  CHECK(seconds > 0.8);  // else the test says nothing
  CHECK(out.end == RunEnd::complete);
  CHECK(out.lost.empty());
}

TEST_CASE("SIGSTOP of one rank stalls only that rank") {
  SharedCounters shared;
  HostProgram program = counting(shared, 3);
  const auto executor = ranks::make_processes(program);
  RunSpec spec = seeded(1, true);
  spec.point_limit = 1u << 30;
  spec.faults = {{Fault::Kind::pause, 1, 100}};
  Outcome out;
  std::thread observer([&] {
    // The ranks are children of the test's main thread's process.
    pid_t stopped = 0;
    CHECK(eventually([&] {
      for (const pid_t pid : children_of()) {
        if (state_of(pid) == 'T') stopped = pid;
      }
      return stopped != 0;
    }));
    CHECK(command_line_of(stopped) == "ringfence rank 1");
    const std::uint64_t before[] = {shared[0], shared[1], shared[2]};
    CHECK(eventually([&] { return shared[0] > before[0] + 1000 && shared[2] > before[2] + 1000; }));
    CHECK(shared[1] == before[1]);
    kill(stopped, SIGCONT);
    CHECK(eventually([&] { return shared[1] > before[1] + 1000; }));
    shared[63] = 1;
  });
  out = executor->run(spec);
  observer.join();
  CHECK(out.end == RunEnd::complete);
  CHECK(out.lost.empty());
}

TEST_CASE("a paused rank that comes back in time is no loss, and the run is the same") {
  MiniReduce program({.ranks = 2, .blocks = 1, .threads = 4}),
      same({.ranks = 2, .blocks = 1, .threads = 4});
  const auto executor = ranks::make_processes(program);
  RunSpec spec = seeded(4);
  const std::uint64_t digest = ranks::make_inline(same)->run(spec).digest;
  spec.faults = {{Fault::Kind::pause, 1, 10}};
  std::thread waker([] {
    eventually([] {
      for (const pid_t pid : children_of()) {
        if (state_of(pid) == 'T') return kill(pid, SIGCONT) == 0;
      }
      return false;
    });
  });
  const Outcome out = executor->run(spec);
  waker.join();
  CHECK(out.end == RunEnd::complete);
  CHECK(out.digest == digest);
}

TEST_CASE("an interrupt stops a run, and the pool stays usable") {
  for (const bool free : {false, true}) {
    SharedCounters shared;
    HostProgram program = counting(shared, 2);
    const auto executor = ranks::make_processes(program);
    RunSpec spec = seeded(1, free);
    spec.point_limit = ~0u;
    InterruptOnSignals guard;
    std::thread user([&] {
      eventually([&] { return shared[0] > 100 || shared[1] > 100; });
      kill(getpid(), SIGINT);
    });
    Outcome out;
    CHECK(seconds_of([&] { out = executor->run(spec); }) < 5);
    user.join();
    CHECK(out.end == RunEnd::stopped);
    CHECK(out.lost.empty());
    clear_interrupt();
    shared[63] = 1;
    CHECK(executor->run(spec).end == RunEnd::complete);
  }
  CHECK(children_of().empty());
}

TEST_CASE("no rank outlives its parent, whatever ends it") {
  for (const int signal_number : {SIGINT, SIGTERM, SIGKILL}) {
    for (const bool free : {false, true}) {
      CAPTURE(signal_number);
      CAPTURE(free);
      SharedCounters shared;
      const pid_t parent = fork();
      if (parent == 0) {
        for (const int s : {SIGINT, SIGTERM}) signal(s, SIG_DFL);  // not the test runner's
        HostProgram program = counting(shared, 3);
        const auto executor = ranks::make_processes(program);
        RunSpec spec = seeded(1, free);
        spec.point_limit = ~0u;
        executor->run(spec);
        _exit(0);
      }
      CHECK(eventually([&] { return shared[0] > 10 || shared[1] > 10 || shared[2] > 10; }));
      const std::vector<pid_t> ranks = children_of(parent);
      CHECK(ranks.size() == 3);
      kill(parent, signal_number);
      int status = 0;
      waitpid(parent, &status, 0);
      CHECK(WIFSIGNALED(status));
      for (const pid_t pid : ranks) {
        // Whoever adopted it may not have reaped it yet.
        CHECK(eventually([&] { return state_of(pid) == 0 || state_of(pid) == 'Z'; }, 2s));
      }
    }
  }
}

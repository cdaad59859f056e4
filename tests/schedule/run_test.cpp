// How runs go on and how they end.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory_resource>
#include <string>

#include "emulator/schedule/inline_executor.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using namespace ringfence::schedule;
using namespace ringfence::testing;

namespace {

struct Counted {
  explicit Counted(int& n) : n(n) { ++n; }
  ~Counted() { --n; }
  Counted(const Counted&) = delete;
  int& n;
};

RunSpec seeded(std::uint64_t seed, StrategySpec::Kind kind = StrategySpec::Kind::random) {
  RunSpec spec;
  spec.strategy = {.kind = kind, .seed = seed};
  return spec;
}

}  // namespace

TEST_CASE("an awaiting agent is not stepped until its slot can satisfy it") {
  HostProgram program(2, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&p, rank](Agent& a) {
               if (rank == 0) {
                 CHECK(a.await_value(p.slot(0, 0), {.order = Order::acquire},
                                     {machine::Compare::ge, 10}) == 10);
               } else {
                 for (std::uint32_t i = 1; i <= 10; ++i) {
                   store32(a, p.slot(0, 0), i, Order::release);
                 }
               }
             }});
  });
  InlineExecutor executor(program);
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Outcome out = executor.run(seeded(seed));
    CHECK(out.end == RunEnd::complete);
    // 2 hosts: a launch and an end each; the writer: 10 points and an end; the reader: its point,
    // at most one block, its end. Were the wait a loop there would be more.
    CHECK(out.points <= 4 + 11 + 3);
  }
}

TEST_CASE(
    "the compare-and-swap barrier is clean under every strategy, and broken without its end") {
  for (const auto kind : {StrategySpec::Kind::random, StrategySpec::Kind::pct}) {
    MiniReduce good({.ranks = 3, .blocks = 2, .threads = 4, .calls = 2});
    MiniReduce bad({.ranks = 3, .blocks = 2, .threads = 4, .end_put = Order::relaxed});
    InlineExecutor good_executor(good), bad_executor(bad);
    int found = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      RunSpec spec = seeded(seed, kind);
      spec.policy.boundary = machine::Boundary::strict;
      const Outcome out = good_executor.run(spec);
      CHECK(out.end == RunEnd::complete);
      CHECK(out.findings.empty());
      found += !bad_executor.run(spec).findings.empty();
    }
    CHECK(found > 0);
  }
}

TEST_CASE("a deadlock names every stuck agent, its slot, the wanted value and the value there") {
  HostProgram program(2, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&p, rank](Agent& a) {
               store32(a, p.slot(rank, 0), 5, Order::relaxed);
               a.await(p.slot(rank, 0), {.order = Order::acquire, .site = 9},
                       {machine::Compare::eq, 6u + rank});
             }});
  });
  InlineExecutor executor(program);
  const Outcome out = executor.run(seeded(1));
  CHECK(out.end == RunEnd::deadlock);
  REQUIRE(out.findings.size() == 1);
  CHECK(out.findings[0].kind == machine::FindingKind::deadlock);
  REQUIRE(out.stuck.size() == 2);
  for (std::uint16_t rank = 0; rank < 2; ++rank) {
    const StuckAgent& s = out.stuck[rank];
    CHECK(unpack(s.label).rank == rank);
    CHECK(s.status == AgentStatus::awaiting);
    CHECK(s.await.at.region == program.slot(rank, 0).region);
    CHECK(s.await.access.site == 9);
    CHECK(s.await.wanted.value == 6u + rank);
    CHECK(s.value_there == 5);
    CHECK(s.last_step > 0);
  }
  RunSpec ignoring = seeded(1);
  ignoring.ignore = {machine::FindingKind::deadlock};
  const Outcome ignored = executor.run(ignoring);
  CHECK(ignored.end == RunEnd::deadlock);
  CHECK(ignored.findings.empty());
}

TEST_CASE("a block barrier releases its agents generation by generation") {
  constexpr std::uint32_t kThreads = 7;
  int at = 0;
  HostProgram program(1, [&at](HostProgram& p, Agent& host, std::uint16_t rank) {
    BlockBarrier barrier(kThreads);
    std::vector<Agent::Body> bodies(kThreads, [&](Agent& a) {
      for (int round = 0; round < 3; ++round) {
        ++at;
        a.sync(barrier);
        CHECK(at >= (round + 1) * static_cast<int>(kThreads));
        CHECK(at < (round + 2) * static_cast<int>(kThreads) + 1);
      }
    });
    p.launch(host, rank, std::move(bodies));
  });
  InlineExecutor executor(program);
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    at = 0;
    CHECK(executor.run(seeded(seed)).end == RunEnd::complete);
    CHECK(at == 3 * kThreads);
  }
}

TEST_CASE("what was written before a block barrier may be read after it") {
  HostProgram program(1, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    BlockBarrier barrier(4);
    std::vector<Agent::Body> bodies;
    for (std::uint32_t t = 0; t < 4; ++t) {
      bodies.push_back([&p, &barrier, t](Agent& a) {
        store32(a, p.slot(0, t), t + 1, Order::weak);
        a.sync(barrier);
        CHECK(load32(a, p.slot(0, (t + 1) % 4), Order::weak) == (t + 1) % 4 + 1);
      });
    }
    p.launch(host, rank, std::move(bodies));
  });
  InlineExecutor executor(program);
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CHECK(executor.run(seeded(seed)).findings.empty());
  }
}

TEST_CASE("a block whose agents end or wait elsewhere diverges") {
  const auto program_of = [](int variant) {
    return HostProgram(1, [variant](HostProgram& p, Agent& host, std::uint16_t rank) {
      BlockBarrier one(3), two(3);
      std::vector<Agent::Body> bodies;
      for (int t = 0; t < 3; ++t) {
        bodies.push_back([&, t](Agent& a) {
          if (variant == 0 && t == 0) return;          // never arrives
          a.sync(variant == 1 && t == 0 ? two : one);  // arrives at another barrier
        });
      }
      p.launch(host, rank, std::move(bodies));
    });
  };
  for (int variant = 0; variant < 2; ++variant) {
    CAPTURE(variant);
    HostProgram program = program_of(variant);
    InlineExecutor executor(program);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Outcome out = executor.run(seeded(seed));
      REQUIRE(out.findings.size() == 1);
      CHECK(out.findings[0].kind == machine::FindingKind::barrier_divergence);
    }
  }
}

TEST_CASE("graph operations run in every order that their edges allow, and see what went before") {
  // 0 -> {1, 2} -> 3
  std::vector<int> order;
  std::vector<std::vector<int>> orders;
  HostProgram program(1, [&](HostProgram& p, Agent& host, std::uint16_t rank) {
    std::vector<Agent::ChildSpec> children;
    for (std::uint32_t i = 0; i < 4; ++i) {
      children.push_back(
          {.role = Role::task, .block = 0, .index = i, .body = [&p, &order, i](Agent& a) {
             order.push_back(static_cast<int>(i));
             if (i > 0) CHECK(load32(a, p.slot(0, 0), Order::weak) == 1);
             if (i == 3) CHECK(load32(a, p.slot(0, 1), Order::weak) == 2);
             if (i == 3) CHECK(load32(a, p.slot(0, 2), Order::weak) == 3);
             store32(a, p.slot(0, i), i + 1, Order::weak);
           }});
    }
    host.launch_graph(p.stream(rank), 0, std::move(children), {{}, {0}, {0}, {1, 2}});
  });
  InlineExecutor executor(program);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    order.clear();
    const Outcome out = executor.run(seeded(seed));
    CHECK(out.findings.empty());
    CHECK(out.end == RunEnd::complete);
    if (std::find(orders.begin(), orders.end(), order) == orders.end()) orders.push_back(order);
  }
  std::sort(orders.begin(), orders.end());
  CHECK(orders == std::vector<std::vector<int>>{{0, 1, 2, 3}, {0, 2, 1, 3}});
}

TEST_CASE("graph operations without an edge race") {
  HostProgram program(1, [&](HostProgram& p, Agent& host, std::uint16_t rank) {
    std::vector<Agent::ChildSpec> children;
    for (std::uint32_t i = 0; i < 2; ++i) {
      children.push_back({.role = Role::task, .index = i, .body = [&p, i](Agent& a) {
                            store32(a, p.slot(0, 0), i, Order::weak);
                          }});
    }
    host.launch_graph(p.stream(rank), 0, std::move(children), {{}, {}});
  });
  InlineExecutor executor(program);
  const Outcome out = executor.run(seeded(1));
  REQUIRE(out.findings.size() == 1);
  CHECK(out.findings[0].kind == machine::FindingKind::data_race);
}

TEST_CASE("a graph that names an operation which is not there is refused") {
  HostProgram program(1, [&](HostProgram& p, Agent& host, std::uint16_t rank) {
    std::vector<Agent::ChildSpec> children;
    children.push_back({.role = Role::task, .body = [](Agent&) {}});
    host.launch_graph(p.stream(rank), 0, std::move(children), {{4}});
  });
  InlineExecutor executor(program);
  CHECK_THROWS_WITH_AS(executor.run(seeded(1)),
                       "r0.host: launch_graph: operation 0 has no predecessor 4", ProgramError);
}

TEST_CASE("a finding ends the run, unwinds every body and leaves the executor usable") {
  int alive = 0;
  bool fail = true;
  HostProgram program(2, [&](HostProgram& p, Agent& host, std::uint16_t rank) {
    Counted in_host(alive);
    BlockBarrier barrier(3);
    std::vector<Agent::Body> bodies;
    for (int t = 0; t < 3; ++t) {
      bodies.push_back([&, t, rank](Agent& a) {
        Counted in_body(alive);
        store32(a, p.slot(rank, 0), 1, Order::relaxed);
        if (fail && t == 2 && rank == 1)
          a.report(finding_of(machine::FindingKind::replica_mismatch));
        a.sync(barrier);
        store32(a, p.slot(rank, 0), 2, Order::relaxed);
      });
    }
    p.launch(host, rank, std::move(bodies));
  });
  InlineExecutor executor(program);
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    fail = seed % 2 == 1;
    const Outcome out = executor.run(seeded(seed));
    CHECK(alive == 0);
    if (fail) {
      CHECK(out.end == RunEnd::finding);
      REQUIRE(out.findings.size() == 1);
      CHECK(out.findings[0].kind == machine::FindingKind::replica_mismatch);
    } else {
      CHECK(out.end == RunEnd::complete);
      CHECK(out.findings.empty());
    }
  }
}

TEST_CASE("what a body throws comes out with the agent's name, and the next run is whole") {
  int alive = 0;
  bool fail = true;
  HostProgram program(2, [&](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&, rank](Agent& a) {
               Counted in_body(alive);
               store32(a, p.slot(0, rank), 1, Order::relaxed);
               if (fail && rank == 1) throw std::runtime_error("no such tile");
             }});
  });
  InlineExecutor executor(program);
  CHECK_THROWS_WITH_AS(executor.run(seeded(1)), "r1.c0.b0.t0: no such tile", ProgramError);
  CHECK(alive == 0);
  fail = false;
  CHECK(executor.run(seeded(1)).end == RunEnd::complete);
}

TEST_CASE("a host that accesses memory itself is told so") {
  HostProgram program(1, [](HostProgram& p, Agent& host, std::uint16_t) {
    store32(host, p.slot(0, 0), 1, Order::relaxed);
  });
  InlineExecutor executor(program);
  CHECK_THROWS_AS(executor.run(seeded(1)), ProgramError);
}

TEST_CASE("a run stops at its limit of points, and on an interrupt") {
  HostProgram program(1, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&p](Agent& a) {
               for (;;) store32(a, p.slot(0, 0), 1, Order::relaxed);
             }});
  });
  InlineExecutor executor(program);
  RunSpec spec = seeded(1);
  spec.point_limit = 5000;
  const Outcome out = executor.run(spec);
  CHECK(out.end == RunEnd::step_limit);
  CHECK(out.points == 5001);
  CHECK(out.findings.empty());
  interrupt();
  CHECK(executor.run(spec).end == RunEnd::stopped);
  clear_interrupt();
  CHECK(executor.run(spec).end == RunEnd::step_limit);
}

namespace {

// Memory that is refused once `left` allocations were granted.
class Refusing final : public std::pmr::memory_resource {
 public:
  std::uint64_t left = ~std::uint64_t{0};

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (left == 0) throw std::bad_alloc();
    --left;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* at, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(at, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace

TEST_CASE("memory refused at any moment ends the run with that error, and the next one is whole") {
  MiniReduce program({.ranks = 2, .blocks = 1, .threads = 4});
  InlineExecutor whole(program);
  const std::uint64_t digest = whole.run(seeded(3)).digest;
  std::uint64_t refused = 0;
  for (std::uint64_t granted = 0;; ++granted) {
    CAPTURE(granted);
    MiniReduce same({.ranks = 2, .blocks = 1, .threads = 4});
    Refusing memory;
    InlineExecutor executor(same, &memory);
    memory.left = granted;
    bool done = false;
    try {
      done = executor.run(seeded(3)).digest == digest;
      CHECK(done);
    } catch (const OutOfMemory&) {
      ++refused;
    } catch (const std::bad_alloc&) {  // before any agent ran, or behind the last
      ++refused;
    }
    memory.left = ~std::uint64_t{0};
    CHECK(executor.run(seeded(3)).digest == digest);
    if (done) break;
    REQUIRE(granted < 10000);
  }
  CHECK(refused > 10);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("stacks that are refused end the run with that error, and the next one is whole") {
  const pid_t child = fork();
  if (child == 0) {
    std::uint32_t threads = 4000;
    HostProgram program(2, [&](HostProgram& p, Agent& host, std::uint16_t rank) {
      BlockBarrier barrier(threads);
      p.launch(host, rank, std::vector<Agent::Body>(threads, [&](Agent& a) { a.sync(barrier); }));
    });
    InlineExecutor executor(program);
    // 4,000 agents that wait at once take 250 MB of addresses for their stacks.
    rlimit old{}, low{};
    getrlimit(RLIMIT_AS, &old);
    low = old;
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    low.rlim_cur = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + (100u << 20);
    setrlimit(RLIMIT_AS, &low);
    int failed = 0;
    for (const std::uint64_t seed : {1, 2, 3}) {
      try {
        executor.run(seeded(seed));
        failed |= 1;
      } catch (const OutOfMemory&) {
      }
    }
    setrlimit(RLIMIT_AS, &old);
    threads = 40;
    if (executor.run(seeded(4)).end != RunEnd::complete) failed |= 2;
    _exit(failed);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CAPTURE(status);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

TEST_CASE("a body that makes no points ends when the run is to stop") {
  for (const bool accesses : {false, true}) {
    HostProgram program(1, [accesses](HostProgram& p, Agent& host, std::uint16_t rank) {
      p.launch(host, rank, {[&p, accesses](Agent& a) {
                 for (;;) accesses ? void(load32(a, p.slot(0, 0), Order::weak)) : a.still_at_it();
               }});
    });
    InlineExecutor executor(program);
    const auto began = std::chrono::steady_clock::now();
    const TimeLimit limit(0.1);
    CHECK(executor.run(seeded(1)).end == RunEnd::stopped);
    CHECK(time_is_over());
    CHECK_FALSE(interrupted());
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(2));
  }
  CHECK_FALSE(must_stop());
}

TEST_CASE("time limits nest: an inner one ends by itself and no later than those around it") {
  const auto wait_for_it = [] {
    const auto began = std::chrono::steady_clock::now();
    while (!must_stop() && std::chrono::steady_clock::now() - began < std::chrono::seconds(5)) {
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  {
    const TimeLimit outer(60);
    {
      const TimeLimit inner(0.05);
      CHECK(wait_for_it() < 3);
      CHECK(inner.over());
      CHECK_FALSE(outer.over());
    }
    CHECK_FALSE(must_stop());
  }
  const TimeLimit outer(0.1);
  {
    const TimeLimit inner(60);
    CHECK(wait_for_it() < 3);
    CHECK(outer.over());
  }
  CHECK(time_is_over());
}

TEST_CASE("the history holds every event in order, if asked for") {
  HostProgram program(1, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&p](Agent& a) {
               store32(a, p.slot(0, 0), 7, Order::relaxed);
               load32(a, p.slot(0, 0), Order::relaxed);
             }});
  });
  InlineExecutor executor(program);
  RunSpec spec = seeded(1);
  CHECK(executor.run(spec).history.empty());
  spec.history = true;
  spec.policy.boundary = machine::Boundary::strict;
  std::vector<machine::Event::Kind> accesses;
  for (const machine::Event& e : executor.run(spec).history) {
    if (e.kind == machine::Event::Kind::read || e.kind == machine::Event::Kind::write) {
      accesses.push_back(e.kind);
      CHECK(e.value == 7);
    }
  }
  CHECK(accesses ==
        std::vector<machine::Event::Kind>{machine::Event::Kind::write, machine::Event::Kind::read});
}

TEST_CASE("what a run left at a program's barrier does not count in another executor's run") {
  BlockBarrier barrier(2);  // lives as long as the program, as those of protocols do
  HostProgram program(1, [&](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, std::vector<Agent::Body>(1, [&](Agent& a) { a.sync(barrier); }));
  });
  for (int executors = 0; executors < 2; ++executors) {
    InlineExecutor executor(program);
    CHECK(executor.run(seeded(1)).end != RunEnd::complete);
  }
}

TEST_CASE("sixteen thousand agents wait at their barriers at once") {
#if defined(__SANITIZE_THREAD__)
  constexpr std::uint32_t kBlocks = 8, kThreads = 512;  // the sanitizer knows 8,128 stacks at most
#else
  constexpr std::uint32_t kBlocks = 32, kThreads = 512;
#endif
  HostProgram program(1, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    std::vector<BlockBarrier> barriers(kBlocks, BlockBarrier(kThreads));
    std::vector<Agent::ChildSpec> children;
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
      for (std::uint32_t t = 0; t < kThreads; ++t) {
        children.push_back(
            {.block = b, .index = t, .body = [&barriers, b](Agent& a) { a.sync(barriers[b]); }});
      }
    }
    host.launch(p.stream(rank), 0, std::move(children));
  });
  InlineExecutor executor(program);
  RunSpec spec = seeded(3);
  CHECK(executor.run(spec).end == RunEnd::complete);
  CHECK(executor.run(spec).end == RunEnd::complete);
}

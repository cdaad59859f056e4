// Rank processes do what the inline executor does, each rank in its own process.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "emulator/ranks/executors.hpp"
#include "tests/ranks/shared_counters.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using namespace ringfence::schedule;
using namespace ringfence::testing;

namespace {

RunSpec seeded(std::uint64_t seed, StrategySpec::Kind kind = StrategySpec::Kind::pct) {
  RunSpec spec;
  spec.strategy = {.kind = kind, .seed = seed};
  return spec;
}

void check_equal(const Outcome& a, const Outcome& b) {
  CHECK(a.digest == b.digest);
  CHECK(a.decisions == b.decisions);
  CHECK(a.end == b.end);
  CHECK(a.points == b.points);
  CHECK(a.steps == b.steps);
  REQUIRE(a.findings.size() == b.findings.size());
  for (std::size_t i = 0; i < a.findings.size(); ++i) {
    CHECK(a.findings[i].kind == b.findings[i].kind);
    CHECK(a.findings[i].second.label == b.findings[i].second.label);
    CHECK(a.findings[i].second.step == b.findings[i].second.step);
    CHECK(a.findings[i].first.label == b.findings[i].first.label);
    CHECK(a.findings[i].missing == b.findings[i].missing);
  }
}

}  // namespace

TEST_CASE("the same seed gives the same decisions, digest and findings inline and over processes") {
  const MiniReduce::Shape shapes[] = {
      {.ranks = 3, .blocks = 2, .threads = 4},
      {.ranks = 3, .blocks = 2, .threads = 4, .end_put = Order::relaxed},
      {.ranks = 2, .blocks = 1, .threads = 4, .start_wait = Order::relaxed, .calls = 2},
  };
  int findings = 0;
  for (const MiniReduce::Shape& shape : shapes) {
    MiniReduce here(shape), there(shape);
    const auto in = ranks::make_inline(here);
    const auto over = ranks::make_processes(there);
    RunSpec count = seeded(1, StrategySpec::Kind::first);
    count.take_profile = true;
    const std::vector<SeenAccess> seen = in->run(count).seen, seen_there = over->run(count).seen;
    REQUIRE(seen.size() > 20);
    REQUIRE(std::equal(seen.begin(), seen.end(), seen_there.begin(), seen_there.end(),
                       [](const SeenAccess& a, const SeenAccess& b) {
                         return a.label == b.label && place_key(a.at) == place_key(b.at) &&
                                a.writes == b.writes;
                       }));
    const Profile profile(seen);
    for (const auto kind :
         {StrategySpec::Kind::first, StrategySpec::Kind::random, StrategySpec::Kind::pct,
          StrategySpec::Kind::pos, StrategySpec::Kind::surw}) {
      for (std::uint64_t seed = 1; seed <= 15; ++seed) {
        RunSpec spec = seeded(seed, kind);
        if (seed % 3 != 0) spec.profile = &profile;
        spec.policy.boundary = machine::Boundary::strict;
        const Outcome a = in->run(spec), b = over->run(spec);
        check_equal(a, b);
        findings += !a.findings.empty();
        // And each replays the other's decisions.
        RunSpec replay = spec;
        replay.strategy.kind = StrategySpec::Kind::replay;
        replay.decisions = a.decisions;
        check_equal(over->run(replay), a);
      }
    }
  }
  CHECK(findings > 0);
}

TEST_CASE("the history is the same inline and over processes") {
  MiniReduce here({.ranks = 2, .blocks = 1, .threads = 2}),
      there({.ranks = 2, .blocks = 1, .threads = 2});
  RunSpec spec = seeded(3);
  spec.history = true;
  const Outcome a = ranks::make_inline(here)->run(spec),
                b = ranks::make_processes(there)->run(spec);
  REQUIRE(a.history.size() > 20);
  REQUIRE(a.history.size() == b.history.size());
  for (std::size_t i = 0; i < a.history.size(); ++i) {
    CHECK(a.history[i].kind == b.history[i].kind);
    CHECK(a.history[i].label == b.history[i].label);
    CHECK(a.history[i].value == b.history[i].value);
    CHECK(a.history[i].from_step == b.history[i].from_step);
  }
}

TEST_CASE("every access of a rank is made by that rank's process, which lives across schedules") {
  SharedCounters pids;
  constexpr std::uint16_t kRanks = 3;
  HostProgram program(kRanks, [&pids](HostProgram& p, Agent& host, std::uint16_t rank) {
    const auto body = [&pids, &p, rank](Agent& a) {
      const auto me = static_cast<std::uint64_t>(getpid());
      for (int i = 0; i < 5; ++i) {
        // An access combines by a function of the rank's: it runs where the access is made.
        static std::atomic<std::uint64_t>* where = nullptr;
        where = &pids[rank];
        a.rmw(p.slot(0, 0), {.order = Order::relaxed}, 1, [](std::uint64_t old, std::uint64_t n) {
          const auto here = static_cast<std::uint64_t>(getpid());
          std::uint64_t before = where->exchange(here);
          if (before != 0 && before != here) where->store(1);
          return old + n;
        });
        if (pids[rank] != me) pids[rank] = 1;
      }
    };
    p.launch(host, rank, {body, body});
  });
  const auto executor = ranks::make_processes(program);
  std::vector<std::uint64_t> first;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CHECK(executor->run(seeded(seed, StrategySpec::Kind::random)).end == RunEnd::complete);
    std::vector<std::uint64_t> now;
    for (std::uint16_t r = 0; r < kRanks; ++r) now.push_back(pids[r]);
    if (first.empty()) first = now;
    CHECK(now == first);
  }
  const std::vector<pid_t> children = children_of();
  CHECK(children.size() == kRanks);
  std::set<std::uint64_t> distinct(first.begin(), first.end());
  CHECK(distinct.size() == kRanks);
  for (std::uint16_t r = 0; r < kRanks; ++r) {
    const auto pid = static_cast<pid_t>(first[r]);
    CHECK(std::find(children.begin(), children.end(), pid) != children.end());
    CHECK(command_line_of(pid) == "ringfence rank " + std::to_string(r));
  }
}

TEST_CASE("no child stays behind a pool") {
  {
    MiniReduce program({.ranks = 4, .blocks = 1, .threads = 4});
    const auto executor = ranks::make_processes(program);
    CHECK(children_of().empty());
    executor->run(seeded(1));
    CHECK(children_of().size() == 4);
  }
  CHECK(children_of().empty());
}

TEST_CASE("two pools work at once") {
  MiniReduce a({.ranks = 2, .blocks = 1, .threads = 4}), b({.ranks = 3, .blocks = 2, .threads = 4});
  MiniReduce c({.ranks = 2, .blocks = 1, .threads = 4}), d({.ranks = 3, .blocks = 2, .threads = 4});
  const auto in_a = ranks::make_inline(c), in_b = ranks::make_inline(d);
  std::vector<std::uint64_t> digests_a, digests_b;
  const auto campaign = [](MiniReduce& program, std::vector<std::uint64_t>& digests) {
    const auto executor = ranks::make_processes(program);
    for (std::uint64_t seed = 1; seed <= 60; ++seed)
      digests.push_back(executor->run(seeded(seed)).digest);
  };
  std::thread other([&] { campaign(b, digests_b); });
  campaign(a, digests_a);
  other.join();
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CHECK(digests_a[seed - 1] == in_a->run(seeded(seed)).digest);
    CHECK(digests_b[seed - 1] == in_b->run(seeded(seed)).digest);
  }
  CHECK(children_of().empty());
}

TEST_CASE("a deadlock over processes names the stuck agents of all ranks") {
  HostProgram program(3, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(
        host, rank, {[&p, rank](Agent& a) {
          a.await(p.slot((rank + 1) % 3, 0), {.order = Order::acquire}, {machine::Compare::eq, 1});
        }});
  });
  const auto executor = ranks::make_processes(program);
  for (const bool free : {false, true}) {
    RunSpec spec = seeded(1);
    spec.free_running = free;
    const Outcome out = executor->run(spec);
    CHECK(out.end == RunEnd::deadlock);
    REQUIRE(out.stuck.size() == 3);
    for (std::uint16_t r = 0; r < 3; ++r) CHECK(unpack(out.stuck[r].label).rank == r);
  }
}

TEST_CASE("what a rank's code throws reaches the parent with its text, and the pool goes on") {
  SharedCounters shared;
  HostProgram program(3, [&](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&, rank](Agent& a) {
               store32(a, p.slot(0, rank), 1, Order::relaxed);
               if (shared[0] != 0 && rank == 2) throw std::runtime_error("tile 3 is not there");
               a.await(p.slot(0, 2), {.order = Order::relaxed}, {machine::Compare::eq, 1});
             }});
  });
  const auto executor = ranks::make_processes(program);
  for (const bool free : {false, true}) {
    RunSpec spec = seeded(1);
    spec.free_running = free;
    shared[0] = 1;
    CHECK_THROWS_WITH_AS(executor->run(spec), "r2.c0.b0.t0: tile 3 is not there", ProgramError);
    const std::vector<pid_t> before = children_of();
    shared[0] = 0;
    CHECK(executor->run(spec).end == RunEnd::complete);
    CHECK(children_of() == before);
  }
}

TEST_CASE(
    "what the machine cannot judge is told apart from what a program throws, inline and over "
    "processes") {
  std::uint8_t element = 0;
  const auto body = [&](HostProgram& p, Agent& host, std::uint16_t rank) {
    // A wider atomic that comes behind a store which nothing orders before it: a race, passed over.
    p.launch(host, rank,
             {[&p, rank](Agent& a) {
                store32(a, p.slot(rank, 0), 1, Order::relaxed);
                store32(a, p.slot(rank, 4), 1, Order::relaxed);
              },
              [&, rank](Agent& a) {
                a.await(p.slot(rank, 4), {.order = Order::relaxed}, {machine::Compare::eq, 1});
                a.rmw(p.slot(rank, 0), {.order = Order::relaxed, .element = element}, 1, add);
              }});
  };
  for (const bool free : {false, true}) {
    for (const bool fits : {false, true}) {
      element = fits ? 4 : 8;  // before ranks are forked
      HostProgram here(2, body), there(2, body);
      const auto in = ranks::make_inline(here);
      const auto over = ranks::make_processes(there);
      RunSpec spec = seeded(1);
      spec.free_running = free;
      spec.ignore = {machine::FindingKind::data_race};
      for (Executor* const executor : {in.get(), over.get()}) {
        if (fits) {
          CHECK(executor->run(spec).end == RunEnd::complete);
        } else {
          CHECK_THROWS_AS(executor->run(spec), NotModelled);
        }
      }
    }
  }
}

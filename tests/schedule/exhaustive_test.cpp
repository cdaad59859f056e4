#include "emulator/schedule/exhaustive.hpp"

#include <doctest/doctest.h>

#include <map>

#include "emulator/schedule/inline_executor.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using namespace ringfence::schedule;
using namespace ringfence::testing;

TEST_CASE("an agent with n points has n+1 steps, and all interleavings are met once") {
  // Two threads with two stores each to places of their own: three steps each, 6! / (3! 3!) = 20.
  HostProgram program(1, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    const auto two_stores = [&p](std::uint32_t slot) {
      return [&p, slot](Agent& a) {
        store32(a, p.slot(0, slot), 1, Order::relaxed);
        store32(a, p.slot(0, slot), 2, Order::relaxed);
      };
    };
    p.launch(host, rank, {two_stores(0), two_stores(1)});
  });
  InlineExecutor executor(program);
  ExhaustiveStrategy all;
  do {
    REQUIRE(executor.run(RunSpec{}, all).end == RunEnd::complete);
  } while (all.next());
  CHECK(all.runs() == 20);
}

TEST_CASE("weak accesses are points only if asked for") {
  HostProgram program(1, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    const auto one_store = [&p](std::uint32_t slot) {
      return [&p, slot](Agent& a) { store32(a, p.slot(0, slot), 1, Order::weak); };
    };
    p.launch(host, rank, {one_store(0), one_store(1)});
  });
  InlineExecutor executor(program);
  RunSpec spec;
  ExhaustiveStrategy all;
  do {
    REQUIRE(executor.run(spec, all).end == RunEnd::complete);
  } while (all.next());
  CHECK(all.runs() == 2);  // one step each: two orders
  spec.weak_points = true;
  ExhaustiveStrategy finer;
  do {
    REQUIRE(executor.run(spec, finer).end == RunEnd::complete);
  } while (finer.next());
  CHECK(finer.runs() == 6);  // two steps each: 4! / (2! 2!)
}

TEST_CASE(
    "message passing by an awaited flag: release and acquire hold in every run, relaxed race") {
  std::map<std::uint64_t, int> values;
  Order put = Order::release, wait = Order::acquire;
  HostProgram program(2, [&](HostProgram& p, Agent& host, std::uint16_t rank) {
    if (rank == 0) {
      p.launch(host, rank, {[&](Agent& a) {
                 store32(a, p.slot(0, 0), 1, Order::weak);
                 store32(a, p.slot(0, 1), 1, put);
               }});
    } else {
      p.launch(host, rank, {[&](Agent& a) {
                 a.await(p.slot(0, 1), {.order = wait}, {machine::Compare::eq, 1});
                 ++values[load32(a, p.slot(0, 0), Order::weak)];
               }});
    }
  });
  InlineExecutor executor(program);
  RunSpec spec;
  spec.policy.boundary = machine::Boundary::strict;
  const auto explore = [&] {
    values.clear();
    int races = 0;
    ExhaustiveStrategy all;
    do {
      const Outcome out = executor.run(spec, all);
      for (const machine::Finding& f : out.findings) {
        CHECK(f.kind == machine::FindingKind::data_race);
        ++races;
      }
    } while (all.next());
    return races;
  };
  CHECK(explore() == 0);
  CHECK(values.size() == 1);
  CHECK(values[1] > 0);
  put = Order::relaxed;
  CHECK(explore() > 0);
  put = Order::release;
  wait = Order::relaxed;
  CHECK(explore() > 0);
  // Past the race the old value is among the outcomes.
  spec.ignore = {machine::FindingKind::data_race};
  CHECK(explore() == 0);
  CHECK(values[0] > 0);
  CHECK(values[1] > 0);
}

TEST_CASE("a program that depends on more than its choices is noticed") {
  int run = 0;
  HostProgram program(1, [&run](HostProgram& p, Agent& host, std::uint16_t rank) {
    std::vector<Agent::Body> bodies(run++ % 2 == 0 ? 2 : 3, [](Agent&) {});
    p.launch(host, rank, std::move(bodies));
  });
  InlineExecutor executor(program);
  ExhaustiveStrategy all;
  executor.run(RunSpec{}, all);
  REQUIRE(all.next());
  executor.run(RunSpec{}, all);
  CHECK_THROWS_AS(all.next(), std::logic_error);
}

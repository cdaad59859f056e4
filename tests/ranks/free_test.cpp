// Free runs: every rank runs its own agents, and the result is that of a controlled run.
#include <doctest/doctest.h>

#include "emulator/ranks/executors.hpp"
#include "tests/ranks/shared_counters.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using namespace ringfence::schedule;
using namespace ringfence::testing;

namespace {

RunSpec free_run() {
  RunSpec spec;
  spec.free_running = true;
  return spec;
}

}  // namespace

TEST_CASE("free runs of a correct protocol are clean, call after call") {
  MiniReduce program({.ranks = 4, .blocks = 3, .threads = 8, .calls = 3});
  const auto executor = ranks::make_processes(program);
  for (int i = 0; i < 30; ++i) {
    const Outcome out = executor->run(free_run());
    CHECK(out.end == RunEnd::complete);
    CHECK(out.findings.empty());
    CHECK(out.decisions.empty());
  }
}

TEST_CASE("a finding in a free run ends it in every rank") {
  MiniReduce program({.ranks = 4, .blocks = 2, .threads = 8, .end_put = Order::relaxed});
  const auto executor = ranks::make_processes(program);
  RunSpec spec = free_run();
  spec.policy.boundary = machine::Boundary::strict;
  for (int i = 0; i < 20; ++i) {
    const Outcome out = executor->run(spec);
    CHECK(out.end == RunEnd::finding);
    REQUIRE(out.findings.size() >= 1);
    CHECK(out.findings[0].kind == machine::FindingKind::data_race);
  }
  CHECK(children_of().size() == 4);
}

TEST_CASE("free and controlled runs may follow each other in one pool") {
  MiniReduce program({.ranks = 3, .blocks = 2, .threads = 4}),
      same({.ranks = 3, .blocks = 2, .threads = 4});
  const auto executor = ranks::make_processes(program);
  const auto in = ranks::make_inline(same);
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CHECK(executor->run(free_run()).end == RunEnd::complete);
    RunSpec spec;
    spec.strategy.seed = seed;
    CHECK(executor->run(spec).digest == in->run(spec).digest);
  }
}

TEST_CASE("the inline executor takes the default schedule for a free run") {
  MiniReduce program({.ranks = 2, .blocks = 1, .threads = 4});
  const auto in = ranks::make_inline(program);
  const Outcome out = in->run(free_run());
  CHECK(out.end == RunEnd::complete);
  CHECK(out.decisions.empty());
}

TEST_CASE("a free run stops at the limit of accesses") {
  HostProgram program(2, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&p, rank](Agent& a) {
               for (;;) store32(a, p.slot(rank, 0), 1, Order::relaxed);
             }});
  });
  const auto executor = ranks::make_processes(program);
  RunSpec spec = free_run();
  spec.point_limit = 20000;
  CHECK(executor->run(spec).end == RunEnd::step_limit);
  CHECK(executor->run(spec).end == RunEnd::step_limit);
}

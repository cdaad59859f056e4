// Faults that the strategy draws befall rank processes as they befall ranks inline.
#include <doctest/doctest.h>

#include <set>

#include "emulator/ranks/executors.hpp"
#include "emulator/schedule/failure.hpp"
#include "tests/support/fault_programs.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using namespace ringfence::schedule;
using namespace ringfence::testing;

namespace {

// Runs `seeds` schedules with all faults in both executors; returns the kinds that were met.
std::set<FaultKind> compare(Program& here, Program& there, std::uint64_t seeds) {
  const auto in = ranks::make_inline(here);
  const auto over = ranks::make_processes(there);
  std::set<FaultKind> met;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    RunSpec spec;
    spec.policy.boundary = machine::Boundary::strict;
    spec.strategy = {.kind = seed % 2 == 0 ? StrategySpec::Kind::pct : StrategySpec::Kind::random,
                     .seed = seed};
    spec.strategy.faults = parse_faults("kill,restart,pause=2,delay=2,late-signal=2,dirty-pad");
    spec.expected_points = 100;
    const Outcome a = in->run(spec), b = over->run(spec);
    CHECK(same_run(a, b));
    REQUIRE(a.faults.size() == b.faults.size());
    for (std::size_t i = 0; i < a.faults.size(); ++i) {
      CHECK(a.faults[i].kind == b.faults[i].kind);
      CHECK(a.faults[i].rank == b.faults[i].rank);
      CHECK(a.faults[i].step == b.faults[i].step);
      met.insert(a.faults[i].kind);
    }
    CHECK(b.lost.empty());  // a killed rank is no lost process
    // What the run decided is enough to have it again, in the other executor.
    RunSpec again;
    again.policy = spec.policy;
    again.strategy.kind = StrategySpec::Kind::replay;
    again.decisions = a.decisions;
    CHECK(same_run(a, over->run(again)));
  }
  return met;
}

}  // namespace

TEST_CASE("the same seed draws the same faults with the same outcome inline and over processes") {
  const MiniReduce::Shape shape{.ranks = 3, .blocks = 2, .threads = 3, .calls = 2};
  MiniReduce here(shape), there(shape);
  CHECK(compare(here, there, 40).size() == kFaultKinds);
}

TEST_CASE("rank processes serve the next run after a kill or a restart in this one") {
  Arrivals here(3, false), there(3, false);
  compare(here, there, 30);
  const auto over = ranks::make_processes(there);
  RunSpec spec;
  spec.policy.boundary = machine::Boundary::strict;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    spec.strategy = {.kind = StrategySpec::Kind::random, .seed = seed};
    spec.strategy.faults = parse_faults(seed % 2 == 0 ? "kill" : "restart");
    over->run(spec);
    spec.strategy.faults = {};
    const Outcome clean = over->run(spec);
    CHECK(clean.end == RunEnd::complete);
    CHECK(clean.findings.empty());
  }
}

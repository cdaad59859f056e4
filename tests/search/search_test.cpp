#include "emulator/schedule/search.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>

#include "emulator/schedule/interrupt.hpp"
#include "tests/search/scripted.hpp"

namespace ringfence::schedule {
namespace {

SearchSpec spec_of(std::uint64_t schedules, std::uint64_t seed = 7) {
  SearchSpec s;
  s.schedules = schedules;
  s.run.strategy.seed = seed;
  return s;
}

// Every fourth decision is taken, so five given ones come together once in 1024 schedules.
const std::vector<Decision> kRare{decision(3, 3), decision(8, 8), decision(11, 11),
                                  decision(17, 17), decision(30, 30)};

TEST_CASE("a search without a fault runs the default schedule and then each of its number") {
  ScriptedExecutor e({decision(1000, 0)});
  const SearchResult r = search({&e}, spec_of(50));
  CHECK_FALSE(r.found);
  CHECK(r.schedules == 51);
  CHECK(e.runs == 51);
  CHECK(r.points == 5100);
  CHECK(r.undecided == 0);
  CHECK(e.last.expected_points == 100);
}

TEST_CASE("a fault of the default schedule is found without any choice") {
  ScriptedExecutor e({});
  const SearchResult r = search({&e}, spec_of(50));
  REQUIRE(r.found);
  CHECK(r.schedules == 1);
  CHECK(r.outcome.decisions.empty());
  CHECK(r.strategy.kind == StrategySpec::Kind::first);
}

TEST_CASE("the schedule that is reported does not depend on the number of workers") {
  ScriptedExecutor one(kRare);
  const SearchResult alone = search({&one}, spec_of(20000));
  REQUIRE(alone.found);
  CHECK(alone.schedules > 2);
  for (int repeat = 0; repeat < 5; ++repeat) {
    ScriptedExecutor a(kRare), b(kRare), c(kRare), d(kRare);
    b.delay = std::chrono::microseconds(repeat * 20);
    const SearchResult r = search({&a, &b, &c, &d}, spec_of(20000));
    REQUIRE(r.found);
    CHECK(r.strategy.seed == alone.strategy.seed);
    CHECK(r.outcome.digest == alone.outcome.digest);
  }
}

TEST_CASE("the seed that a search reports finds the fault again as its first schedule") {
  ScriptedExecutor e(kRare);
  const SearchResult r = search({&e}, spec_of(20000));
  REQUIRE(r.found);
  const SearchResult again = search({&e}, spec_of(1, r.strategy.seed));
  REQUIRE(again.found);
  CHECK(again.outcome.digest == r.outcome.digest);
}

TEST_CASE("two first seeds search different schedules") {
  CHECK(schedule_seed(1, 0) == 1);
  CHECK(schedule_seed(1, 5) != schedule_seed(2, 4));
  CHECK(schedule_seed(1, 1) != schedule_seed(2, 1));
}

TEST_CASE("a search ends with its time when no number of schedules is given") {
  ScriptedExecutor e({decision(1000, 0)});
  SearchSpec s = spec_of(0);
  s.seconds = 0.05;
  const SearchResult r = search({&e}, s);
  CHECK_FALSE(r.found);
  CHECK_FALSE(r.interrupted);
  CHECK(r.schedules > 1);
  CHECK(r.seconds >= 0.05);
  CHECK(r.seconds < 5);
}

TEST_CASE("runs that meet the limit of points are counted as undecided") {
  ScriptedExecutor e({decision(1000, 0)});
  e.end = RunEnd::step_limit;
  const SearchResult r = search({&e}, spec_of(9));
  CHECK_FALSE(r.found);
  CHECK(r.undecided == 10);
}

TEST_CASE("a search that is stopped says so and takes no further schedule") {
  ScriptedExecutor e({decision(1000, 0)});
  interrupt();
  const SearchResult r = search({&e}, spec_of(1000));
  clear_interrupt();
  CHECK(r.interrupted);
  CHECK(e.runs == 1);
}

TEST_CASE("an executor's exception reaches the caller, whichever worker met it") {
  struct Throwing : ScriptedExecutor {
    Throwing() : ScriptedExecutor({decision(1000, 0)}) {}
    Outcome run(const RunSpec& s) override {
      if (s.strategy.kind != StrategySpec::Kind::first) throw std::runtime_error("segment is gone");
      return ScriptedExecutor::run(s);
    }
  };
  Throwing a, b;
  CHECK_THROWS_WITH(search({&a, &b}, spec_of(100)), "segment is gone");
}

}  // namespace
}  // namespace ringfence::schedule

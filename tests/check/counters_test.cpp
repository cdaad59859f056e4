// Waits at counters, cells to which several threads add alike (counters.cpp): against the axioms,
// and against the search that orders the reductions.
#include <doctest/doctest.h>

#include <set>

#include "emulator/litmus/printer.hpp"
#include "tests/check/both.hpp"
#include "tests/check/counted.hpp"

using namespace ringfence;

TEST_CASE("generated programs that wait at counters have the outcomes of every order") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const litmus::Test test = testing::counted(seed);
    INFO(seed);
    INFO(litmus::print(test));
    CHECK(testing::difference_of_waits(test) == "");
  }
}

TEST_CASE("and those of the search that orders reductions, in every mode, with fewer executions") {
  for (const machine::Boundary mode : {machine::Boundary::strict, machine::Boundary::coherent}) {
    machine::Policy policy;
    policy.boundary = mode;
    std::size_t fewer = 0;
    for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
      const litmus::Test test = testing::counted(seed);
      INFO(seed);
      INFO(litmus::print(test));
      const auto states = [](const testing::Searched& searched) {
        std::set<litmus::State> all;
        for (const auto& [state, n] : searched.states) all.insert(state);
        return all;
      };
      const testing::Searched with = testing::search(test, policy, true);
      const testing::Searched without =
          testing::search(test, policy, false, 0, false, testing::Races::passed_over, false);
      CHECK(states(with) == states(without));
      CHECK(with.race == without.race);
      CHECK(with.hangs == without.hangs);
      if (!with.race) CHECK(with.result.repeated == 0);
      if (with.result.complete < without.result.complete) ++fewer;
    }
    CHECK(fewer > 100);
  }
}

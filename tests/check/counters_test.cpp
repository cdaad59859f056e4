// Waits at counters, cells to which several threads add alike (counters.cpp): against the axioms,
// and against the search that orders the reductions.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"
#include "emulator/litmus/run.hpp"
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
    std::size_t fewer = 0, left_out = 0;
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
      if (!with.result.left_out.empty() && states(with) != states(without)) {
        ++left_out;  // and so it says
        continue;
      }
      CHECK(states(with) == states(without));
      CHECK(with.race == without.race);
      CHECK(with.hangs == without.hangs);
      if (!with.race) CHECK(with.result.repeated == 0);
      if (with.result.complete < without.result.complete) ++fewer;
    }
    CHECK(fewer > 100);
    CHECK(left_out < 10);
  }
}

// Nothing orders what one multimem.red does at several replicas. Where a search takes the replicas
// for counters it makes the parts in one order, and loses nothing (counters.cpp); where it orders
// reductions it needs both directions of each instruction.
TEST_CASE("what multimem adds at several counters has the outcomes of every order of its parts") {
  machine::Policy policy;
  policy.boundary = machine::Boundary::strict;
  std::size_t compared = 0, left_out = 0, one_way = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const litmus::Test test = testing::counted_by_multimem(seed);
    const std::uint32_t directions = 1u << litmus::LitmusProgram::unordered(test);
    if (directions < 2 || directions > 16) continue;
    INFO(seed);
    INFO(litmus::print(test));
    const auto states = [](const testing::Searched& searched) {
      std::set<litmus::State> all;
      for (const auto& [state, n] : searched.states) all.insert(state);
      return all;
    };
    const testing::Searched with = testing::search_reversed(test, policy, 0, true);
    const testing::Searched without =
        testing::search(test, policy, false, 0, false, testing::Races::passed_over, false);
    if (!with.result.left_out.empty()) {
      ++left_out;  // and so it says
      continue;
    }
    ++compared;
    CHECK(states(with) == states(without));
    CHECK(with.race == without.race);
    CHECK(with.hangs == without.hangs);
    const testing::Searched ahead = testing::search_reversed(test, policy, 0, false);
    if (states(ahead) != states(without)) ++one_way;
  }
  MESSAGE(compared << " compared, " << left_out << " left out, " << one_way << " one way");
  CHECK(compared > 500);
  CHECK(left_out < compared);
}

namespace {

litmus::Test program(const std::string& columns, const std::string& observed) {
  return litmus::parse("PTX counter\n{\nu32 c=0;\nu32 d=0;\nx=0;\ny=0;\n}\n" + columns +
                           "locations [" + observed + "]\nexists\n(c=0)\n",
                       "counter");
}

}  // namespace

TEST_CASE("a wait whose own thread added need not have what another thread's wait has read") {
  // P2 reads x = 0 only where P1's addition comes first, and then P0's wait has it as well.
  const litmus::Test test = program(
      " P0@cta 0,gpu 0           | P1@cta 0,gpu 1           | P2@cta 0,gpu 2        ;\n"
      " st.relaxed.sys x, 1      | red.release.sys.add c, 1 | L2:                   ;\n"
      " red.release.sys.add c, 1 |                          | ld.acquire.sys r1, c  ;\n"
      " L0:                      |                          | blt r1, 1, L2         ;\n"
      " ld.acquire.sys r1, c     |                          | ld.relaxed.sys r0, x  ;\n"
      " blt r1, 1, L0            |                          |                       ;\n",
      "P2:r0;");
  CHECK(testing::difference_of_waits(test) == "");
  const auto searched = testing::search(test, testing::letter(), true);
  CHECK(searched.states.size() == 2);
  CHECK(searched.result.repeated == 0);
}

TEST_CASE("a reduction that an earlier wait has read is not left out for a later store") {
  // P3's store comes to P2's load, behind which is the addition that P0's wait has read. In
  // whatever order the threads come: which is tried first depends on it.
  const std::vector<std::vector<std::string>> threads = {
      {"L0:", "ld.acquire.sys r1, c", "blt r1, 1, L0"},
      {"red.release.sys.add c, 1"},
      {"ld.relaxed.sys r0, x", "red.release.sys.add c, 1"},
      {"st.relaxed.sys x, 1"}};
  std::vector<std::size_t> order = {0, 1, 2, 3};
  do {
    std::string rows, observed;
    for (std::size_t line = 0; line < 4; ++line) {
      for (std::size_t p = 0; p < order.size(); ++p) {
        const auto& thread = threads[order[p]];
        rows += p == 0 ? " " : " | ";
        if (line == 0) rows += "P" + std::to_string(p) + "@cta 0,gpu " + std::to_string(p);
        if (line > 0 && line <= thread.size()) rows += thread[line - 1];
        if (order[p] == 2) observed = "P" + std::to_string(p) + ":r0;";
      }
      rows += " ;\n";
    }
    CAPTURE(rows);
    const litmus::Test test = program(rows, observed);
    CHECK(testing::difference_of_waits(test) == "");
    const auto searched = testing::search(test, testing::letter(), true);
    CHECK(searched.result.repeated == 0);
    CHECK(searched.result.complete == 4);
    // What the wait has read came with it: no run is given up for its lack.
    if (order[0] < 2 && order[1] < 2) CHECK(searched.result.abandoned == 0);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("a sum without an addition that comes before one of its own is not tried") {
  const auto searched = testing::search(
      program(" P0@cta 0,gpu 0          | P1@cta 0,gpu 1           | P2@cta 0,gpu 2           ;\n"
              " L0:                     | red.release.sys.add c, 1 | red.release.sys.add c, 1 ;\n"
              " ld.acquire.sys r1, c    | red.release.sys.add c, 1 |                          ;\n"
              " blt r1, 1, L0           |                          |                          ;\n",
              "c;"),
      testing::letter(), true);
  CHECK(searched.result.complete == 2);  // P1's first, or P2's
  CHECK(searched.result.repeated == 0);
  CHECK(searched.result.abandoned == 0);
}

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
  for (std::uint64_t seed = 1; seed <= 1200; ++seed) {
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
    for (std::uint64_t seed = 1; seed <= 1200; ++seed) {
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
  std::size_t compared = 0, left_out = 0, handed_on = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const litmus::Test test = testing::counted_by_multimem(seed);
    INFO(seed);
    INFO(litmus::print(test));
    testing::PartsCompared done;
    CHECK(testing::difference_of_parts(test, done) == "");
    compared += done.compared;
    left_out += done.left_out;
    handed_on += done.handed_on;
  }
  CHECK(compared > 130);
  CHECK(handed_on > 50);
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

namespace {

// P1 adds to c behind what P0 has added to d, and tells P2. The addition of P0 to c may come before
// it or behind it; a run makes it first.
litmus::Test handed_on(const std::string& enough, const std::string& look) {
  return litmus::parse(
      "PTX parts\n{\nu32 c=0;\nu32 d=0;\nf=0;\nP2:r0=0;\nm @ multicast aliases c, d;\n}\n"
      " P0@cta 0,gpu 0                    | P1@cta 0,gpu 1           | P2@cta 0,gpu 2       ;\n"
      " multimem.red.release.sys.add m, 1 | L0:                      | L1:                  ;\n"
      "                                   | ld.acquire.sys r1, d     | ld.acquire.sys r1, f ;\n"
      "                                   | blt r1, 1, L0            | blt r1, 1, L1        ;\n"
      "                                   | red.release.sys.add c, 1 | L2:                  ;\n"
      "                                   | st.release.sys f, 1      | ld.acquire.sys r2, c ;\n"
      "                                   |                          | blt r2, " +
          enough + ", L2 ;\n | | " + look + " ;\nlocations [P2:r0; c;]\nexists\n(c=0)\n",
      "parts");
}

}  // namespace

TEST_CASE("who looks at a counter in another way could tell which parts of an instruction came") {
  for (const char* look :
       {"ld.relaxed.sys r0, c", "st.relaxed.sys c, 0", "ld.weak r0, c", "st.weak c, 0",
        "multimem.ld_reduce.relaxed.sys.add r0, m", "atom.relaxed.sys.exch r0, c, 0"}) {
    CAPTURE(look);
    machine::Policy policy;
    policy.boundary = machine::Boundary::strict;
    const litmus::Test part = handed_on("1", look);
    const auto ahead = testing::search_reversed(part, policy, 0, true);
    const auto behind = testing::search_reversed(part, policy, 1, true);
    CHECK(ahead.states != behind.states);
    CHECK_FALSE(ahead.result.left_out.empty());
    // Behind a wait for both there is nothing to tell.
    const litmus::Test both = handed_on("2", look);
    const auto all = testing::search_reversed(both, policy, 0, true);
    CHECK(all.states.size() == 1);
    CHECK(testing::search_reversed(both, policy, 1, true).states.size() == 1);
  }
}

TEST_CASE("sums at two counters that no order of execution has together lose no execution") {
  // The smaller sum of P1's wait at c puts P0's second addition behind P1's, and P0's wait at d
  // that before it.
  const litmus::Test test = program(
      " P0@cta 0,gpu 0           | P1@cta 0,gpu 1           ;\n"
      " red.release.sys.add c, 1 | L0:                      ;\n"
      " red.release.sys.add d, 1 | ld.acquire.sys r0, c     ;\n"
      " red.release.sys.add c, 1 | blt r0, 1, L0            ;\n"
      " red.release.sys.add d, 1 | red.release.sys.add d, 1 ;\n"
      " L3:                      | red.release.sys.add c, 1 ;\n"
      " ld.relaxed.sys r0, d     | red.release.sys.add d, 1 ;\n"
      " blt r0, 2, L3            | L1:                      ;\n"
      "                          | ld.acquire.sys r1, c     ;\n"
      "                          | blt r1, 2, L1            ;\n"
      "                          | L2:                      ;\n"
      "                          | ld.relaxed.sys r3, d     ;\n"
      "                          | blt r3, 1, L2            ;\n",
      "c; d;");
  CHECK(testing::difference_of_waits(test) == "");
  CHECK(testing::search(test, testing::letter()).states.size() == 1);
}

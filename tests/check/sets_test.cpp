// Where reductions are a set (Sets), and where their order can be told after all.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "emulator/litmus/parser.hpp"
#include "tests/check/both.hpp"

using namespace ringfence;

namespace {

litmus::Test program(const std::string& columns, const std::string& observed) {
  return litmus::parse(
      "PTX set\n{\nu32 c=0;\nx=0;\n}\n" + columns + "locations [" + observed + "]\nexists\n(c=0)\n",
      "set");
}

}  // namespace

TEST_CASE("reductions that are not morally strong with one another race in one of their orders") {
  // With P0's first, P1's second one comes behind what its first one has observed.
  const auto of_scope = [](const std::string& scope) {
    return program(
        " P0@cta 0,gpu 0           | P1@cta 0,gpu 1             ;\n"
        " red.relaxed.sys.add c, 1 | red.relaxed.sys.add c, 1   ;\n"
        "                          | red.relaxed." +
            scope + ".add c, 1 ;\n",
        "c;");
  };
  for (const auto races : {testing::Races::passed_over, testing::Races::end}) {
    const auto narrow = testing::search(of_scope("gpu"), testing::letter(), false, 0, false, races);
    CHECK((narrow.race || narrow.result.findings > 0));
    const auto wide = testing::search(of_scope("sys"), testing::letter(), false, 0, false, races);
    CHECK_FALSE(wide.race);
    CHECK(wide.result.findings == 0);
    CHECK(wide.result.complete == 1);
  }
}

TEST_CASE(
    "a wait that its own reduction ends need not have seen another one, whichever comes first") {
  // The first agent's reductions come first in a run that tries nothing else.
  for (const bool first : {false, true}) {
    for (const int enough : {1, 2}) {
      CAPTURE(first);
      CAPTURE(enough);
      const std::string waits[] = {" red.release.sys.add c, 1 ;", " L0:                      ;",
                                   " ld.acquire.sys r1, c     ;",
                                   " blt r1, " + std::to_string(enough) + ", L0            ;",
                                   " ld.relaxed.sys r0, x     ;"};
      const std::string adds[] = {" st.relaxed.sys x, 1      ", " red.release.sys.add c, 1 "};
      std::string rows = " P0@cta 0,gpu 0           | P1@cta 0,gpu 1           ;\n";
      for (std::size_t i = 0; i < std::size(waits); ++i) {
        const std::string other = i < std::size(adds) ? adds[i] : std::string(26, ' ');
        std::string wait = waits[i];
        rows += first ? other + "|" + wait + "\n"
                      : wait.substr(0, wait.size() - 1) + "|" + other + ";\n";
      }
      const auto searched =
          testing::search(program(rows, first ? "P1:r0;" : "P0:r0;"), testing::letter(), true);
      CHECK(searched.states.size() == (enough == 1 ? 2 : 1));
      CHECK(searched.result.repeated == 0);
    }
  }
}

TEST_CASE(
    "a wait for a value that only a part of the reductions leaves ends, if those come first") {
  const auto searched =
      testing::search(program(" P0@cta 0,gpu 0           | P1@cta 0,gpu 1           ;\n"
                              " red.release.sys.add c, 1 | red.relaxed.sys.add c, 1 ;\n"
                              " red.release.sys.add c, 1 | L1:                      ;\n"
                              "                          | ld.acquire.sys r1, c     ;\n"
                              "                          | bne r1, 1, L1            ;\n",
                              "c;"),
                      testing::letter(), false, 0, true);
  CHECK(searched.states.size() == 1);
  CHECK_FALSE(searched.hangs.empty());
}

TEST_CASE("at the point of coherence reductions of a set come in any order") {
  // P1 reads 0 where its reduction comes first, and 1 where P0's does.
  const litmus::Test test = program(
      " P0@cta 0,gpu 0           | P1@cta 0,gpu 1           ;\n"
      " st.relaxed.sys x, 1      | red.relaxed.sys.add c, 1 ;\n"
      " red.relaxed.sys.add c, 1 | ld.relaxed.sys r0, x     ;\n",
      "P1:r0;");
  machine::Policy policy;
  policy.boundary = machine::Boundary::coherent;
  const auto searched = testing::search(test, policy, true);
  CHECK(searched.states.size() == 2);
  CHECK(searched.result.repeated == 0);
}

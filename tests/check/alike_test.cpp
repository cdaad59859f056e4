// Waits that several writes end alike, of which the search explores the first (first_end.cpp):
// against the axioms, and against the search without that rule.
#include <doctest/doctest.h>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"
#include "tests/check/alike.hpp"
#include "tests/check/both.hpp"

using namespace ringfence;

TEST_CASE("generated programs with waits that end alike have the outcomes of every value") {
  for (std::uint64_t seed = 1; seed <= 800; ++seed) {
    const litmus::Test test = testing::with_alike_ends(seed);
    INFO(litmus::print(test));
    CHECK(testing::difference(test) == "");
    if (seed % 2 == 0) CHECK(testing::difference(test, machine::LoadBuffering::off) == "");
  }
}

// No axioms say what mode coherent admits: the search without the rule does.
TEST_CASE("waits that end alike lose no outcome in mode coherent") {
  for (const auto& make : {testing::with_alike_ends, testing::with_several_flags}) {
    std::size_t fewer = 0;
    for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
      const litmus::Test test = make(seed);
      INFO(litmus::print(test));
      bool spared = false;
      CHECK(testing::difference_of_rules(test, spared) == "");
      if (spared) ++fewer;
    }
    CHECK(fewer > 20);
  }
}

TEST_CASE("a wait ends on a later write where coherence order leaves no time for the first") {
  // P1's y=2 is the last: P0's y=1 came before it, and f=2 before that. So P1 finds f=2.
  const litmus::Test test = litmus::parse(R"(PTX late
{
f=0;
y=0;
}
 P0@cta 0,gpu 0       | P1@cta 0,gpu 1       ;
 st.relaxed.sys f, 1  | st.relaxed.sys y, 2  ;
 st.relaxed.sys f, 2  | L0:                  ;
 st.relaxed.sys y, 1  | ld.relaxed.sys r0, f ;
                      | beq r0, 0, L0        ;
locations [y;]
exists
(y=2)
)",
                                          "late");
  machine::Policy policy;
  policy.boundary = machine::Boundary::coherent;
  const testing::Searched searched = testing::search(test, policy, true);
  CHECK(searched.states.size() == 2);
  CHECK(searched.result.repeated == 0);
}

TEST_CASE("a wait that takes the first write hides no race of the flag with what is behind it") {
  const auto searched = [](const std::string& last, machine::Boundary boundary) {
    const litmus::Test test = litmus::parse(R"(PTX flag
{
x=0;
}
 P0@cta 0,gpu 0      | P1@cta 0,gpu 0       ;
 st.relaxed.sys x, 1 | L0:                  ;
 st.relaxed.sys x, 2 | ld.relaxed.sys r0, x ;
                     | beq r0, 0, L0        ;
                     | L1:                  ;
                     | ld.relaxed.sys r1, x ;
                     | beq r1, 1, L1        ;
                     | )" + last + R"( ;
locations [x;]
exists
(0 == 0)
)",
                                            "flag");
    machine::Policy policy;
    policy.boundary = boundary;
    return testing::search(test, policy, true);
  };
  for (const machine::Boundary boundary :
       {machine::Boundary::strict, machine::Boundary::coherent}) {
    // Who saw x=2 alone has not observed x=1.
    CHECK(searched("ld.weak r2, x", boundary).race);
    CHECK(searched("st.weak x, 3", boundary).race);
    const testing::Searched strong = searched("ld.relaxed.sys r2, x", boundary);
    CHECK_FALSE(strong.race);
    CHECK(strong.result.complete == 1);
    CHECK(strong.result.repeated == 0);
  }
}

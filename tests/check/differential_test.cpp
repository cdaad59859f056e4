// The search over the machine against the axiomatic checker: the same final states, the same
// programs with a race. `check_differential FIRST COUNT` does this for as many as one likes.
#include <doctest/doctest.h>

#include <filesystem>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"
#include "tests/axiomatic/convert.hpp"
#include "tests/axiomatic/generator.hpp"
#include "tests/axiomatic/mutate.hpp"
#include "tests/check/both.hpp"

using namespace ringfence;

TEST_CASE("generated programs have the outcomes and the races that the axioms give them") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const litmus::Test test = axiomatic::generate(seed);
    INFO(litmus::print(test));
    CHECK(testing::difference(test) == "");
  }
}

TEST_CASE("variants of the corpus have the outcomes and the races that the axioms give them") {
  std::vector<litmus::Test> corpus;
  for (const auto& entry : std::filesystem::directory_iterator("tests/litmus/corpus")) {
    if (entry.path().extension() != ".litmus") continue;
    corpus.push_back(litmus::parse_file(entry.path().string()));
  }
  REQUIRE(corpus.size() >= 120);
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const litmus::Test test = axiomatic::mutate(corpus[seed % corpus.size()], seed);
    INFO(litmus::print(test));
    try {
      CHECK(testing::difference(test) == "");
      ++compared;
    } catch (const axiomatic::Unsupported&) {
    }
  }
  CHECK(compared >= 900);
}

// What the comparison found, shrunk.
namespace {
std::string compare(const char* text) { return testing::difference(litmus::parse(text, "here")); }
}  // namespace

TEST_CASE("an atomic that is not morally strong with what it read is not ordered behind it") {
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0                 | P1@cta 0,gpu 0 ;
 atom.relaxed.sys.add r0, x, 16 | st.weak x, 1   ;
locations [x;P0:r0;]
exists (0 == 0)
)") == "");
}

TEST_CASE("two atomics may read one write that neither is morally strong with") {
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0                 | P1@cta 0,gpu 0                 | P2@cta 0,gpu 0 ;
 atom.relaxed.sys.add r0, x, 16 | atom.relaxed.sys.exch r1, x, 2 | st.weak x, 4   ;
locations [x;P0:r0;P1:r1;]
exists (0 == 0)
)") == "");
}

TEST_CASE("such an atomic may land before what precedes the write that it read") {
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0                 | P1@cta 0,gpu 0                 | P2@cta 0,gpu 0      ;
 atom.relaxed.sys.add r0, x, 16 | atom.relaxed.sys.exch r1, x, 2 | st.relaxed.sys x, 3 ;
                                |                                | st.weak x, 4        ;
locations [x;P0:r0;P1:r1;]
exists (0 == 0)
)") == "");
}

TEST_CASE("but not where that splits another atomic from what it read") {
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0                 | P1@cta 0,gpu 0                 ;
 st.weak x, 3                   | atom.relaxed.sys.exch r0, x, 6 ;
 atom.relaxed.sys.exch r0, x, 4 | atom.relaxed.sys.exch r1, x, 7 ;
locations [x;P0:r0;P1:r0;P1:r1;]
exists (0 == 0)
)") == "");
}

TEST_CASE("a write's place in coherence order cannot make a read that was made outdated") {
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0      | P1@cta 0,gpu 0                 ;
 st.relaxed.sys x, 1 | st.weak x, 4                   ;
 ld.weak r0, x       | atom.relaxed.sys.exch r1, x, 5 ;
locations [x;P0:r0;P1:r1;]
exists (0 == 0)
)") == "");
}

TEST_CASE("a revisit is judged by coherence as it was before the write that asks for it") {
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0                 | P1@cta 0,gpu 1       | P2@cta 0,gpu 1            ;
 st.weak x, 1                   | st.relaxed.cta x, 32 | red.relaxed.sys.add x, 64 ;
 atom.relaxed.sys.exch r0, x, 2 |                      |                           ;
locations [x;P0:r0;]
exists (0 == 0)
)") == "");
}

TEST_CASE("a read that a revisit forces on an atomic counts, though its write has no place") {
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0                 | P1@cta 1,gpu 0      | P2@cta 0,gpu 0                 ;
 atom.relaxed.sys.exch r0, x, 1 | st.relaxed.sys x, 2 | st.weak x, 4                   ;
                                |                     | atom.relaxed.sys.exch r0, x, 5 ;
locations [x;P0:r0;P2:r0;]
exists (0 == 0)
)") == "");
}

TEST_CASE("the write of an atomic follows what its read acquires, so it does not race with that") {
  CHECK(compare(R"(PTX a
{
y=0;
}
 P0@cta 0,gpu 0                   | P1@cta 0,gpu 0                 ;
 atom.acq_rel.sys.cas r0, y, 3, 2 | ld.weak r0, y                  ;
                                  | atom.release.sys.exch r1, y, 3 ;
locations [y;P0:r0;P1:r0;P1:r1;]
exists (0 == 0)
)") == "");
}

TEST_CASE("fence.sc that are not morally strong are in no order") {
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 1,gpu 0 | P1@cta 0,gpu 0 ;
 st.weak x, 1   | fence.sc.sys   ;
 fence.sc.sys   | ld.weak r0, x  ;
 fence.sc.cta   |                ;
locations [x;P1:r0;]
exists (0 == 0)
)") == "");
}

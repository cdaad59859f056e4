// The search over the machine against the axiomatic checker: the same final states, the same
// programs with a race. `check_differential FIRST COUNT` does this for as many as one likes.
#include <doctest/doctest.h>

#include <filesystem>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"
#include "emulator/litmus/verdict.hpp"
#include "tests/axiomatic/convert.hpp"
#include "tests/axiomatic/generator.hpp"
#include "tests/axiomatic/mutate.hpp"
#include "tests/axiomatic/weaken.hpp"
#include "tests/check/both.hpp"

using namespace ringfence;

TEST_CASE("generated programs have the outcomes and the races that the axioms give them") {
  for (std::uint64_t seed = 1; seed <= 800; ++seed) {
    const litmus::Test test = axiomatic::generate(seed);
    INFO(litmus::print(test));
    CHECK(testing::difference(test) == "");
    if (seed % 2 == 0) CHECK(testing::difference(test, machine::LoadBuffering::off) == "");
  }
}

TEST_CASE("generated waits by loads and by atomics end as the axioms say, and may wait for ever") {
  axiomatic::GeneratorOptions options;
  options.atomic_awaits = true;
  options.barriers = false;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const litmus::Test test = axiomatic::generate(seed, options);
    INFO(litmus::print(test));
    CHECK(testing::difference_of_waits(test) == "");
  }
}

TEST_CASE("generated programs with second names have them under both policies") {
  axiomatic::GeneratorOptions options;
  options.aliases = true;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const litmus::Test test = axiomatic::generate(seed, options);
    INFO(litmus::print(test));
    CHECK(testing::difference(test) == "");
    if (seed % 2 == 0) {
      CHECK(testing::difference(test, machine::LoadBuffering::on, machine::AliasData::cohere) ==
            "");
    }
  }
}

TEST_CASE("generated programs of the constant, texture and surface proxies have them") {
  axiomatic::GeneratorOptions options;
  options.proxies = true;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    options.aliases = seed % 3 == 0;
    const litmus::Test test = axiomatic::generate(seed, options);
    INFO(litmus::print(test));
    CHECK(testing::difference(test) == "");
    if (seed % 4 == 0) CHECK(testing::difference(test, machine::LoadBuffering::off) == "");
  }
}

TEST_CASE("generated programs with exchanges that nobody reads have them in any order") {
  axiomatic::GeneratorOptions options;
  options.unread_exchanges = true;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    const litmus::Test test = axiomatic::generate(seed, options);
    INFO(litmus::print(test));
    CHECK(testing::difference(test) == "");
    if (seed % 2 == 0) CHECK(testing::difference(test, machine::LoadBuffering::off) == "");
  }
}

TEST_CASE("generated programs without a race have their outcomes where races end a run") {
  for (std::uint64_t seed = 1; seed <= 800; ++seed) {
    const litmus::Test test = axiomatic::weaken(axiomatic::generate(seed), seed);
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

TEST_CASE("which of two exchanges is the last follows from the order of fences between them") {
  // P2's load misses x only where its fence comes first, and with it the exchange that it has
  // acquired: that of P1, which has nothing to acquire itself.
  CHECK(compare(R"(PTX a
{
x=0;
y=0;
z=0;
}
 P0@cta 0,gpu 0                 | P1@cta 1,gpu 0                 | P2@cta 2,gpu 0       ;
 st.relaxed.sys x, 1            | atom.relaxed.sys.exch r0, y, 2 | ld.acquire.sys r0, z ;
 fence.sc.sys                   | st.release.sys z, 1            | fence.sc.sys         ;
 atom.relaxed.sys.exch r0, y, 1 |                                | ld.relaxed.sys r1, x ;
locations [y;P2:r0;P2:r1;]
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

TEST_CASE("an atomic may read a later write whose value shows only where the atomic comes last") {
  CHECK(compare(R"(PTX a
{
x=0;
z=0;
}
 P0@cta 0,gpu 0                 | P1@cta 0,gpu 0                 ;
 atom.relaxed.sys.exch r0, z, 1 | atom.relaxed.sys.exch r1, x, 4 ;
 atom.relaxed.sys.exch r1, x, 2 | atom.relaxed.sys.add r3, z, 16 ;
locations [x;z;P0:r0;P0:r1;P1:r1;P1:r3;]
exists (0 == 0)
)") == "");
}

TEST_CASE(
    "a read before a bar.sync may return a write that follows the other threads' part of it") {
  CHECK(compare(R"(PTX a
{
y=0;
}
 P0@cta 1,gpu 1                 | P1@cta 0,gpu 0                 | P2@cta 1,gpu 1 ;
 ld.weak r0, y                  | atom.relaxed.sys.exch r0, y, 1 | bar.cta.sync 0 ;
 bar.cta.sync 0                 |                                | st.weak y, 2   ;
 atom.relaxed.sys.add r1, y, 16 |                                |                ;
locations [y;P0:r0;P0:r1;P1:r0;]
exists (0 == 0)
)") == "");
}

TEST_CASE("an atomic that reads a later write may land anywhere before it is known whose it was") {
  CHECK(compare(R"(PTX a
{
y=0;
P3:r2=&y;
}
 P0@cta 0,gpu 0 | P1@cta 0,gpu 0                 | P2@cta 0,gpu 0      | P3@cta 0,gpu 0                    ;
 ld.weak r0, y  | atom.relaxed.sys.exch r0, y, 1 | st.relaxed.sys y, 3 | atom.relaxed.sys.exch r3, [r2], 4 ;
                | st.weak y, 2                   |                     |                                   ;
locations [y;P0:r0;P1:r0;P3:r3;]
exists (0 == 0)
)") == "");
}

TEST_CASE("an operand's dependency binds an atomic's write, not what its read hands on") {
  // P0:r2 does not depend on P0:r1, though the atomic's write does.
  const char* const program = R"(PTX a
{
x=0;
y=0;
z=0;
}
 P0@cta 0,gpu 0                   | P1@cta 0,gpu 0      ;
 ld.relaxed.sys r1, x             | ld.relaxed.sys r3, z ;
 atom.relaxed.sys.add r2, y, r1   | st.relaxed.sys x, r3 ;
 add r2, r2, 1                    |                     ;
 st.relaxed.sys z, r2             |                     ;
exists (P0:r1 == 1 /\ P1:r3 == 1)
)";
  CHECK(compare(program) == "");
  machine::Policy policy = testing::letter();
  policy.load_buffering = machine::LoadBuffering::on;
  const litmus::Test test = litmus::parse(program, "here");
  CHECK(litmus::judge(test, testing::search(test, policy).states).satisfying > 0);
}

TEST_CASE("syntactic dependencies forbid values out of thin air, and nothing else does") {
  const auto satisfied = [](const std::string& stored) {
    const std::string text =
        "PTX a\n{\nx=0;\ny=0;\n}\n P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;\n"
        " ld.relaxed.sys r0, x | ld.relaxed.sys r0, y ;\n"
        " xor r1, r0, r0 | ;\n add r1, r1, 1 | ;\n"
        " st.relaxed.sys y, " +
        stored +
        " | st.relaxed.sys x, r0 ;\n"
        "exists (P0:r0 == 1 /\\ P1:r0 == 1)\n";
    const litmus::Test test = litmus::parse(text, "here");
    CHECK(testing::difference(test) == "");
    machine::Policy policy = testing::letter();
    policy.load_buffering = machine::LoadBuffering::on;
    return litmus::judge(test, testing::search(test, policy).states).satisfying > 0;
  };
  CHECK(satisfied("1"));
  CHECK_FALSE(satisfied("r1"));  // the value is 1 whatever was read, but its text mentions the read
}

TEST_CASE(
    "what took a write from others does not take it from whom it is not morally strong with") {
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0      | P1@cta 0,gpu 0                  | P2@cta 0,gpu 1                 | P3@cta 0,gpu 0                 ;
 st.relaxed.sys x, 1 | atom.relaxed.gpu.add r1, x, 256 | atom.relaxed.gpu.add r0, x, 32 | atom.relaxed.sys.add r0, x, 16 ;
                     |                                 | atom.relaxed.sys.add r1, x, 64 |                                ;
locations [x;P1:r1;P2:r0;P2:r1;P3:r0;]
exists (0 == 0)
)") == "");
}

TEST_CASE("a write that was foreseen to be read may land behind or before a write of another") {
  // P2's add reads what P1 writes, and 2 comes between 53 and 5.
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0      | P1@cta 0,gpu 0                 | P2@cta 0,gpu 1                 ;
 st.relaxed.sys x, 2 | ld.weak r0, x                  | atom.relaxed.sys.add r0, x, 32 ;
                     | atom.relaxed.cta.add r1, x, 16 | atom.relaxed.sys.exch r1, x, 5 ;
locations [x;P1:r0;P1:r1;P2:r0;P2:r1;]
exists (0 == 0)
)") == "");
}

TEST_CASE("so may the first of two atomics, beside readers of narrower scope") {
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0 | P1@cta 0,gpu 1                 | P2@cta 0,gpu 0                  | P3@cta 0,gpu 0      ;
 ld.weak r0, x  | atom.relaxed.sys.add r0, x, 32 | ld.weak r0, x                   | st.relaxed.sys x, 1 ;
                | atom.relaxed.sys.add r1, x, 64 | atom.relaxed.gpu.add r1, x, 256 |                     ;
locations [x;P0:r0;P1:r0;P1:r1;P2:r0;P2:r1;]
exists (0 == 0)
)") == "");
}

TEST_CASE(
    "an atomic that reads a later write leaves what it read before to the one that writes it") {
  // In every order of execution P0's add comes first and takes the 0 that P1's needs to write 16.
  const char* const program = R"(PTX a
{
x=0;
y=0;
}
 P0@cta 0,gpu 0                 | P1@cta 0,gpu 0                 ;
 atom.relaxed.sys.add r0, x, 1  | ld.relaxed.sys r0, y           ;
 st.relaxed.sys y, 1            | bne r0, 1, L0                  ;
                                | atom.relaxed.sys.add r1, x, 16 ;
                                | L0:                            ;
exists (P0:r0 == 16 /\ P1:r1 == 0)
)";
  CHECK(compare(program) == "");
  machine::Policy policy = testing::letter();
  policy.load_buffering = machine::LoadBuffering::on;
  const litmus::Test test = litmus::parse(program, "here");
  CHECK(litmus::judge(test, testing::search(test, policy).states).satisfying > 0);
  // The broken twin: the signal depends on the add.
  const std::string dependent = [&] {
    std::string text = program;
    const std::string store = " st.relaxed.sys y, 1            |";
    text.replace(text.find(store), store.size(), " st.relaxed.sys y, r2           |");
    const std::string first =
        " atom.relaxed.sys.add r0, x, 1  | ld.relaxed.sys r0, y           ;\n";
    text.insert(text.find(first) + first.size(),
                " xor r2, r0, r0                 |                                ;\n"
                " add r2, r2, 1                  |                                ;\n");
    return text;
  }();
  CHECK(compare(dependent.c_str()) == "");
  const litmus::Test bound = litmus::parse(dependent, "here");
  CHECK(litmus::judge(bound, testing::search(bound, policy).states).satisfying == 0);
}

TEST_CASE("a race counts although no execution that has it completes") {
  // Where P0's exchange comes first it races with the weak store, and P1 waits for ever.
  const char* const program = R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0                 | P1@cta 0,gpu 0       ;
 atom.acq_rel.sys.exch r0, x, 1 | st.weak x, 2         ;
                                | st.release.sys x, 3  ;
                                | L0:                  ;
                                | ld.relaxed.sys r5, x ;
                                | bne r5, 1, L0        ;
locations [x;P0:r0;P1:r5;]
exists (0 == 0)
)";
  CHECK(compare(program) == "");
  const auto searched = testing::search(litmus::parse(program, "here"), testing::letter());
  CHECK(searched.race_of_blocked);
  CHECK(searched.states.size() == 1);
}

TEST_CASE("who observes a write comes after it, but not after its thread's read before it") {
  // P1's weak store races with P0's load, though not with P0's store, which P1 read.
  const char* const program = R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0       | P1@cta 0,gpu 0       ;
 ld.relaxed.sys r0, x | ld.relaxed.sys r0, x ;
 xor r1, r0, r0       | beq r0, 0, L1        ;
 add r1, r1, 1        | st.weak x, 2         ;
 st.relaxed.sys x, r1 | L1:                  ;
locations [x;P0:r0;P1:r0;]
exists (0 == 0)
)";
  CHECK(compare(program) == "");
  CHECK(testing::search(litmus::parse(program, "here"), testing::letter()).race);
}

TEST_CASE("a read is not behind a weak write that its thread makes later") {
  // Where races end a run the weak store is no event. P1's store comes last, and P0's load may
  // return it only if P0's exchange, which then comes again, is what the search would add by
  // itself.
  const litmus::Test test = litmus::parse(R"(PTX a
{
x=0; y=0;
}
 P0@cta 0,gpu 0                 | P1@cta 0,gpu 0       ;
 ld.relaxed.sys r0, x           | st.relaxed.sys x, 6  ;
 atom.relaxed.sys.exch r1, y, 3 |                      ;
 st.weak y, 5                   |                      ;
locations [x;y;P0:r0;P0:r1;]
exists (P0:r0 == 6)
)",
                                          "here");
  for (const testing::Races races : {testing::Races::passed_over, testing::Races::end}) {
    const testing::Searched searched =
        testing::search(test, testing::letter(), false, 0, false, races);
    CHECK_FALSE(searched.race);
    CHECK(searched.states.size() == 2);
    CHECK(litmus::judge(test, searched.states, false).ok);
  }
}

TEST_CASE("an atomic may come before a read that keeps it from what it reads") {
  // P0's second exchange lands before 19, and so does its first: not once P2 has read the first.
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 1                 | P1@cta 0,gpu 0                 | P2@cta 0,gpu 0                 ;
 atom.relaxed.gpu.exch r0, x, 1 | atom.relaxed.gpu.exch r0, x, 3 | atom.relaxed.sys.add r0, x, 16 ;
 atom.relaxed.sys.exch r1, x, 2 | ld.weak r1, x                  | ld.weak r1, x                  ;
locations [x;P0:r0;P0:r1;P1:r0;P1:r1;P2:r0;P2:r1;]
exists (0 == 0)
)") == "");
}

TEST_CASE("executions beside a wait by an atomic are visited once each") {
  // P2 comes first by the rule. Where it finds its 4 taken, it may have been the first to look; but
  // that is not to be asked of a run that has it wait for ever by its graph.
  const auto wait = [](const std::string& look) {
    return "PTX a\n{\nx=0;\n}\n"
           " P0@cta 0,gpu 1 | P1@cta 0,gpu 1 | P2@cta 0,gpu 0 ;\n"
           " atom.relaxed.sys.exch r0, x, 2 | atom.relaxed.sys.exch r0, x, 3 | st.relaxed.sys x, 4 "
           ";\n | | L0: ;\n | | " +
           look +
           " ;\n | | bne r1, 4, L0 ;\n"
           "locations [x;P0:r0;P1:r0;P2:r1;]\nexists (0 == 0)\n";
  };
  for (const std::string look : {"atom.relaxed.sys.cas r1, x, 4, 4",
                                 "atom.acquire.sys.cas r1, x, 4, 5", "ld.relaxed.sys r1, x"}) {
    INFO(look);
    CHECK(testing::difference_of_waits(litmus::parse(wait(look), "here")) == "");
  }
}

TEST_CASE("reductions that do not commute are ordered, whether their results are read or not") {
  const auto states = [](const std::string& first, const std::string& second) {
    const std::string program = "PTX a\n{\nx=1;\n}\n P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;\n " + first +
                                " | " + second + " ;\nlocations [x;]\nexists (0 == 0)\n";
    CHECK(compare(program.c_str()) == "");
    return testing::search(litmus::parse(program, "here"), testing::letter()).states.size();
  };
  CHECK(states("red.relaxed.sys.add x, 1", "red.relaxed.sys.max x, 5") == 2);
  CHECK(states("red.relaxed.sys.add x, 1", "red.relaxed.sys.mul x, 3") == 2);
  CHECK(states("red.relaxed.sys.add x, 1", "red.relaxed.sys.add x, 3") == 1);
  CHECK(states("atom.relaxed.sys.exch r0, x, 4", "atom.relaxed.sys.exch r0, x, 5") == 2);
}

TEST_CASE("what an atomic acquires it releases, further than it was released to it") {
  // P0 releases to its block alone, or the atomic's thread writes again behind it: P2, which reads
  // 3 or 4, has P0's store in its past.
  CHECK(compare(R"(PTX a
{
x=0; y=0;
}
 P0@cta 0,gpu 0      | P1@cta 0,gpu 0                 | P2@cta 1,gpu 0       ;
 st.weak x, 1        | atom.acq_rel.sys.exch r0, y, 3 | ld.acquire.sys r0, y ;
 st.release.cta y, 2 |                                | ld.weak r1, x        ;
locations [x;y;P1:r0;P2:r0;P2:r1;]
exists (0 == 0)
)") == "");
  CHECK(compare(R"(PTX a
{
x=0; y=0;
}
 P0@cta 0,gpu 0      | P1@cta 0,gpu 0                 | P2@cta 0,gpu 0       ;
 st.weak x, 1        | atom.acq_rel.sys.exch r0, y, 3 | ld.acquire.sys r0, y ;
 st.release.sys y, 2 | st.relaxed.sys y, 4            | ld.weak r1, x        ;
locations [x;y;P1:r0;P2:r0;P2:r1;]
exists (0 == 0)
)") == "");
}

TEST_CASE("an atomic whose result nobody asks for acquires for its own write") {
  // P1's load would read what P0's exchange writes behind P1's release; the pattern may begin with
  // a read before it.
  for (const std::string row : {" ld.relaxed.sys r0, y | ", " ld.relaxed.sys r0, x | "}) {
    INFO(row);
    const std::string program = "PTX a\n{\nx=0; y=0;\n}\n P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;\n" +
                                row +
                                "ld.weak r0, x ;\n st.weak x, 3 | st.release.sys x, 6 ;\n"
                                " atom.acquire.sys.exch r1, x, 4 | ;\n"
                                "locations [x;P0:r0;P1:r0;]\nexists (0 == 0)\n";
    CHECK(compare(program.c_str()) == "");
  }
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0                 | P1@cta 0,gpu 0      ;
 atom.acquire.sys.exch r3, x, 2 | ld.weak r0, x       ;
                                | st.release.sys x, 3 ;
locations [x;P1:r0;]
exists (0 == 0)
)") == "");
}

TEST_CASE(
    "an acquire read ends the pattern of a read before it also where it returns an older value") {
  // What the two loads go through differs, so the second may miss what the first one saw.
  CHECK(compare(R"(PTX a
{
x=0;
}
 P0@cta 0,gpu 0         | P1@cta 0,gpu 0        ;
 suld.relaxed.sys r0, x | st.release.sys x, 1   ;
 ld.acquire.sys r1, x   | sust.relaxed.sys x, 2 ;
locations [x;P0:r0;P0:r1;]
exists (0 == 0)
)") == "");
}

TEST_CASE(
    "without a fence between, a read may return a later write of its thread by another name") {
  const auto satisfied = [](const std::string& fence, machine::AliasData aliases) {
    const litmus::Test test = litmus::parse(
        "PTX a\n{ x=0; y @ generic aliases x; }\n P0@cta 0,gpu 0 ;\n ld.weak r0, y ;\n" + fence +
            " st.weak x, 1 ;\nexists (P0:r0 == 1)\n",
        "here");
    CHECK(testing::difference(test, machine::LoadBuffering::on, aliases) == "");
    machine::Policy policy = testing::letter();
    policy.load_buffering = machine::LoadBuffering::on;
    policy.alias_data = aliases;
    return litmus::judge(test, testing::search(test, policy).states).ok;
  };
  CHECK(satisfied("", machine::AliasData::fence_required));
  CHECK_FALSE(satisfied(" fence.proxy.alias ;\n", machine::AliasData::fence_required));
  CHECK_FALSE(satisfied("", machine::AliasData::cohere));
}

TEST_CASE("two second names of a place are two addresses") {
  const litmus::Test test = litmus::parse(
      "PTX a\n{ x=0; y @ generic aliases x; z @ generic aliases y; }\n P0@cta 0,gpu 0 ;\n"
      " st.weak y, 1 ;\n ld.weak r0, z ;\nexists (P0:r0 == 0)\n",
      "here");
  CHECK(testing::difference(test) == "");
  CHECK(litmus::judge(test, testing::search(test, testing::letter()).states).ok);
}

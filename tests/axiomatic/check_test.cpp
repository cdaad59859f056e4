#include <doctest/doctest.h>

#include "emulator/litmus/parser.hpp"
#include "tests/axiomatic/convert.hpp"

namespace {

using namespace ringfence;

axiomatic::Result run(const std::string& state, const std::string& table,
                      const axiomatic::Options& options = {}) {
  return axiomatic::check(axiomatic::convert(litmus::parse(
                              "PTX t\n{" + state + "}\n" + table + "\nexists 0==0\n", "t")),
                          options);
}

using Outcomes = std::set<axiomatic::Outcome>;

}  // namespace

TEST_CASE("store buffering has exactly its four outcomes, three with fence.sc") {
  // Registers of P0, P1; then x, y.
  const Outcomes all = {{0, 0, 1, 1}, {0, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, 1, 1}};
  CHECK(run("x=0; y=0;",
            "P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ; st.relaxed.gpu x, 1 | st.relaxed.gpu y, 1 ;"
            "ld.relaxed.gpu r0, y | ld.relaxed.gpu r0, x ;")
            .outcomes == all);
  Outcomes three = all;
  three.erase({0, 0, 1, 1});
  CHECK(run("x=0; y=0;",
            "P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ; st.relaxed.gpu x, 1 | st.relaxed.gpu y, 1 ;"
            "fence.sc.gpu | fence.sc.gpu ; ld.relaxed.gpu r0, y | ld.relaxed.gpu r0, x ;")
            .outcomes == three);
}

TEST_CASE("racing weak writes leave either value, ordered ones the later") {
  CHECK(run("x=0;", "P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ; st.weak x, 1 | st.weak x, 2 ;").outcomes ==
        Outcomes{{1}, {2}});
  CHECK(run("x=0;", "P0@cta 0,gpu 0 ; st.weak x, 1 ; st.weak x, 2 ;").outcomes == Outcomes{{2}});
}

TEST_CASE("load buffering can be switched off") {
  const std::string table =
      "P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ; ld.relaxed.gpu r0, x | ld.relaxed.gpu r0, y ;"
      "st.relaxed.gpu y, 1 | st.relaxed.gpu x, 1 ;";
  CHECK(run("x=0; y=0;", table).outcomes.contains({1, 1, 1, 1}));
  axiomatic::Options in_order;
  in_order.load_buffering = false;
  CHECK_FALSE(run("x=0; y=0;", table, in_order).outcomes.contains({1, 1, 1, 1}));
  CHECK(run("x=0; y=0;", table, in_order).outcomes.size() == 3);
}

TEST_CASE("two exchanges do not read each other, unless atomics are no dependencies") {
  // Scopes too narrow for atomicity; each would take the value that the other is about to write.
  const std::string table =
      "P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;"
      "atom.relaxed.cta.exch r0, x, 1 | atom.relaxed.cta.exch r0, x, 2 ;";
  const auto crossed = [](const Outcomes& outcomes) {
    return outcomes.contains({2, 1, 1}) || outcomes.contains({2, 1, 2});
  };
  CHECK_FALSE(crossed(run("x=0;", table).outcomes));
  axiomatic::Options by_the_letter;
  by_the_letter.atomic_is_dependency = false;
  CHECK(crossed(run("x=0;", table, by_the_letter).outcomes));
}

TEST_CASE("races are found between conflicting accesses that nothing orders, and not elsewhere") {
  const std::string two = "P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ; ";
  CHECK(run("x=0;", two + "st.weak x, 1 | ld.weak r0, x ;").race);
  CHECK(run("x=0;", two + "st.relaxed.cta x, 1 | ld.relaxed.gpu r0, x ;").race_unobserved);
  CHECK_FALSE(run("x=0;", two + "st.relaxed.gpu x, 1 | ld.relaxed.gpu r0, x ;").race);
  CHECK_FALSE(run("x=0;", two + "ld.weak r1, x | ld.weak r0, x ;").race);
  CHECK(run("x=0;", two + "st.weak x, 1 | ld.weak r0, x ;").race_text ==
        "write of P0 (its event 0) at location 0 and read of P1 (its event 0) at location 0");
}

TEST_CASE("barriers that cannot complete give no execution") {
  const auto crossed = run("x=0;",
                           "P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ; bar.cta.sync 0 | bar.cta.sync 1 ;"
                           "bar.cta.sync 1 | bar.cta.sync 0 ;");
  CHECK(crossed.executions == 0);
  CHECK(crossed.blocked == 1);
  const auto too_few = run("x=0;",
                           "P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;"
                           "bar.cta.sync 1, 1, 3 | bar.cta.sync 1, 1, 3 ;");
  CHECK(too_few.executions == 0);
  // Jumped over, on the path on which r0 is not 0: without a count whoever has ended is not missed.
  const auto skipped = [](const std::string& barrier) {
    return run("x=0;", "P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ; " + barrier +
                           " | ld.weak r0, x ; | bne r0, 0, END ; | " + barrier + " ; | END: ;");
  };
  CHECK(skipped("bar.cta.sync 0").executions == 1);
  CHECK(skipped("bar.cta.sync 0").blocked == 0);
  CHECK(skipped("bar.cta.sync 0, 0, 2").executions == 1);
  CHECK(skipped("bar.cta.sync 0, 0, 2").blocked == 1);
}

TEST_CASE("a barrier may be named by a register that keeps its initial value") {
  const std::string table =
      "P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ; st.weak x, 1 | bar.cta.sync 0, r1 ;"
      "bar.cta.sync 0, r0 | ld.weak r2, x ;";
  CHECK(run("x=0; P0:r0=3; P1:r1=3;", table).outcomes == Outcomes{{3, 3, 1, 1}});
  CHECK(run("x=0; P0:r0=3; P1:r1=4;", table).outcomes == Outcomes{{3, 4, 0, 1}, {3, 4, 1, 1}});
}

TEST_CASE("values wrap to the location's width and extend by its kind") {
  const auto result = run("u16 x=65535; b16 y=32767;",
                          "P0@cta 0,gpu 0 ; atom.relaxed.gpu.add r0, x, 2 ;"
                          "atom.relaxed.gpu.add r1, y, 1 ; ld.weak r2, y ;");
  CHECK(result.outcomes == Outcomes{{65535, 32767, -32768, 1, -32768}});
}

TEST_CASE("an address that was read names the location that it points to") {
  // P1 redirects p from x to y; P0 follows it. Registers of P0, of P1; then p, x, y.
  const auto result = run("p=&x; x=5; y=7; P1:r0=&y;",
                          "P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ; ld.relaxed.gpu r0, p | "
                          "st.relaxed.gpu p, r0 ; ld.relaxed.gpu r1, [r0] | ;");
  std::set<axiomatic::Value> seen;
  for (const auto& outcome : result.outcomes) seen.insert(outcome[1]);
  CHECK(seen == std::set<axiomatic::Value>{5, 7});
  CHECK(result.outcomes.size() == 2);
}

TEST_CASE("what the scalar model does not decide is refused by name") {
  const auto refusal = [](const std::string& state, const std::string& instruction) -> std::string {
    try {
      run(state, "P0@cta 0,gpu 0 ; " + instruction + " ;");
    } catch (const axiomatic::Unsupported& error) {
      return error.what();
    }
    return "taken";
  };
  CHECK(refusal("b32 x[2]=0;", "ld.weak.v2 {r0, r1}, x") == "vector accesses");
  CHECK(refusal("x=0;", "ld.weak.u8 r0, x") == "mixed sizes");
  CHECK(refusal("x=0; m @ multicast aliases x;", "multimem.st m, 1") == "multicast addresses");
  CHECK(refusal("x=0;", "launch") == "launches");
  CHECK(refusal("x=0;", "fence.proxy.async") == "taken");
  CHECK(refusal("b32 x[2]=0;", "ld.weak r0, x[1]") == "taken");
}

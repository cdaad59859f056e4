#include "emulator/litmus/templates.hpp"

#include <doctest/doctest.h>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"

namespace {

using namespace ringfence::litmus;

std::string error_of(const std::string& text) {
  try {
    parse_templates(text, "t.test", "t");
  } catch (const ParseError& error) {
    return error.what();
  }
  return "no error";
}

const std::string kHead =
    ".global x;\n.global y physically aliases x;\n.surfref s virtually aliases y;\n";

}  // namespace

TEST_CASE("each row of a template is a test, each $n its n-th cell") {
  const auto tests = parse_templates(
      kHead +
          "d0.b1.t0 {\n  $0, 2;\n  $1\n}\nd1.b0.t2 {\n  $2 r1, $3;\n}\n$4 (r1 != 2 || not r1 == 0) "
          "as n;\n"
          "$$\n# no row\nst [x] | fence.proxy.surface.alias; | suld.relaxed.gpu | [s] | permit\n\n"
          "sust.release.sys [s] | | ld | [x] | assert\n",
      "t.test", "t");
  REQUIRE(tests.size() == 2);
  CHECK(tests[0].name == "t#1");
  CHECK(tests[1].name == "t#2");
  CHECK(tests[0].threads[0].cta == 1);
  CHECK(tests[0].threads[1].gpu == 1);
  REQUIRE(tests[0].threads[0].instructions.size() == 3);
  const auto& store = std::get<Store>(tests[0].threads[0].instructions[0].what);
  CHECK(store.order == Order::weak);
  CHECK(tests[0].threads[0].instructions[0].at.line == 5);
  CHECK(std::get<ProxyFence>(tests[0].threads[0].instructions[1].what).kind ==
        ProxyFence::Kind::Surface);
  CHECK(std::get<ProxyFence>(tests[0].threads[0].instructions[2].what).kind ==
        ProxyFence::Kind::Alias);
  CHECK(std::get<Load>(tests[0].threads[1].instructions[0].what).proxy == Proxy::Surface);
  CHECK(tests[0].quantifier == Quantifier::Exists);
  CHECK(tests[1].quantifier == Quantifier::Forall);
  CHECK(print(tests[0], tests[0].condition) == "P1:r1 != 2 \\/ not P1:r1 == 0");
}

TEST_CASE("a file without rows is a test, of each question one; a load's value is a filter") {
  const auto tests =
      parse_templates(kHead +
                          "d0.b0.t0 { ld.acquire.sys r0, [x] == 1; atom.add.acq_rel.gpu r2, [x], "
                          "1; fence.alias; }\n"
                          "permit (r2 == 1 && r0 == 1) as a;\nassert (r2 == 2) as b;",
                      "t.test", "t");
  REQUIRE(tests.size() == 2);
  CHECK(tests[0].name == "t:a");
  CHECK(tests[1].name == "t:b");
  REQUIRE(tests[0].filter.has_value());
  CHECK(print(tests[0], *tests[0].filter) == "P0:r0 == 1");
  CHECK(std::get<Atomic>(tests[0].threads[0].instructions[1].what).order == Order::acq_rel);
}

TEST_CASE("what is wrong in a template is told with its place") {
  const auto starts = [](const std::string& message, const std::string& start) {
    INFO(message);
    CHECK(message.starts_with(start));
  };
  const std::string thread = "d0.b0.t0 {\n ld.weak r0, [x];\n}\n";
  starts(error_of(".local x;"), "t.test:1:8: global, shared, texref, surfref or conref expected");
  starts(error_of(".surfref s physically aliases x;"), "t.test:1:23: `virtually aliases` expected");
  starts(error_of(kHead + "permit (1 == 1) as n;"), "t.test:4:1: a thread such as d0.b0.t0");
  starts(error_of(kHead + thread), "t.test:7:1: permit, assert or check");
  starts(error_of(kHead + thread + "permit (r1 == 1) as n;"),
         "t.test:7:9: no instruction writes the register `r1`");
  starts(error_of(kHead + "d0.b0.t0 {\n ld.acquire r0, [x];\n}\npermit (r0 == 1) as n;"),
         "t.test:5:2: t: a strong load has a scope");
  starts(error_of(kHead + thread + "$0 (r0 == 1) as n;\n$$\n"), "t.test:9:1: no row behind `$$`");
  starts(error_of(kHead + thread + "$0 (r0 == $1) as n;\n$$\npermit\n"),
         "t.test:9:1: the row has too few cells");
}

#include <doctest/doctest.h>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"
#include "tests/axiomatic/convert.hpp"
#include "tests/axiomatic/generator.hpp"
#include "tests/axiomatic/shrink.hpp"

namespace {

using namespace ringfence;

std::size_t instructions(const litmus::Test& test) {
  std::size_t n = 0;
  for (const auto& thread : test.threads) n += thread.instructions.size();
  return n;
}

bool load_buffering_matters(const litmus::Test& test) {
  axiomatic::Options in_order;
  in_order.load_buffering = false;
  const auto program = axiomatic::convert(test);
  return axiomatic::check(program).outcomes != axiomatic::check(program, in_order).outcomes;
}

}  // namespace

TEST_CASE("a program that always fails shrinks to next to nothing") {
  const auto small =
      axiomatic::shrink(axiomatic::generate(5), [](const litmus::Test&) { return true; });
  CHECK(small.threads.size() == 1);
  CHECK(instructions(small) == 0);
  CHECK(small.locations.empty());
}

TEST_CASE("programs in which load buffering shows shrink to its four accesses") {
  // An atomic is two accesses and at least relaxed.
  axiomatic::GeneratorOptions no_atomics;
  no_atomics.atomics = false;
  int shrunk = 0;
  for (std::uint64_t seed = 0; shrunk < 5; ++seed) {
    REQUIRE(seed < 5000);
    const auto test = axiomatic::generate(seed, no_atomics);
    if (!load_buffering_matters(test)) continue;
    ++shrunk;
    const auto small = axiomatic::shrink(test, load_buffering_matters);
    INFO(litmus::print(test) << litmus::print(small));
    CHECK(load_buffering_matters(small));
    CHECK(small.threads.size() == 2);
    CHECK(instructions(small) == 4);
    const std::string text = litmus::print(small);
    CHECK(text.find("relaxed") == std::string::npos);
    CHECK(text.find("gpu 1") == std::string::npos);
  }
}

TEST_CASE("branches, labels and what they skip go together, and the condition is kept") {
  const auto test = litmus::parse(
      "PTX t\n{x=0; y=0; P1:r9=3;}\n P0@cta 1,gpu 1 | P1@cta 0,gpu 1 ;\n"
      "st.release.gpu x, 1 | AGAIN: ;\n | ld.acquire.gpu r0, x ;\n | bne r0, 1, AGAIN ;\n"
      " | atom.acq_rel.cta.add r1, y, r9 ;\nexists (P1:r0 == 1)",
      "t");
  const auto small = axiomatic::shrink(test, [](const litmus::Test& t) {
    const auto result = axiomatic::check(axiomatic::convert(t));
    return litmus::judge(t, axiomatic::states(t, result)).satisfying > 0;
  });
  CHECK(litmus::print(small) ==
        "PTX t\n{\nx=0;\n}\n P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;\n"
        " st.weak x, 1   | ld.weak r0, x  ;\nexists\n(P1:r0 == 1)\n");
}

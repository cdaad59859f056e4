#include <doctest/doctest.h>

#include <map>
#include <set>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"
#include "tests/axiomatic/convert.hpp"
#include "tests/axiomatic/generator.hpp"
#include "tests/axiomatic/mutate.hpp"
#include "tests/axiomatic/random.hpp"

namespace {

using namespace ringfence;

int events_of(const litmus::Thread& thread) {
  int events = 0;
  for (const litmus::Instruction& i : thread.instructions) {
    if (!std::holds_alternative<litmus::Local>(i.what) &&
        !std::holds_alternative<litmus::Branch>(i.what) &&
        !std::holds_alternative<litmus::Label>(i.what)) {
      ++events;
    }
  }
  return events;
}

}  // namespace

TEST_CASE("the first numbers of a seed are SplitMix64's, on every platform") {
  // The reference implementation's first outputs for the seed 1234567.
  axiomatic::Random random(1234567);
  CHECK(random.next() == 6457827717110365317u);
  CHECK(random.next() == 3203168211198807973u);
  CHECK(random.next() == 9817491932198370423u);
}

TEST_CASE("range reduction stays within its bounds and reaches both") {
  axiomatic::Random random(7);
  std::set<int> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.between(-2, 3));
  CHECK(seen == std::set<int>{-2, -1, 0, 1, 2, 3});
}

TEST_CASE("one seed gives one program, another seed another one") {
  CHECK(litmus::print(axiomatic::generate(42)) == litmus::print(axiomatic::generate(42)));
  CHECK(litmus::print(axiomatic::generate(42)) != litmus::print(axiomatic::generate(43)));
}

TEST_CASE("generated programs are well formed and within their bounds") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const litmus::Test test = axiomatic::generate(seed);
    const std::string text = litmus::print(test);
    INFO(text);
    REQUIRE(litmus::print(litmus::parse(text, "generated")) == text);
    REQUIRE(test.threads.size() >= 2);
    REQUIRE(test.threads.size() <= 4);
    REQUIRE(test.locations.size() <= 3);
    int events = 0;
    for (const litmus::Thread& thread : test.threads) events += events_of(thread);
    REQUIRE(events >= 3);
    REQUIRE(events <= 8);
  }
}

TEST_CASE("every feature occurs, and every pair of a feature with another program without it") {
  std::map<std::string, int> programs;
  const char* const features[] = {
      "ld.weak",       "ld.relaxed", "ld.acquire", "st.weak", "st.relaxed", "st.release",
      "atom.",         "red.",       ".cas ",      ".exch ",  ".add ",      "fence.sc",
      "fence.acq_rel", "bar.cta",    ".cta",       ".gpu",    ".sys",       ".cluster",
      "xor ",          "bne ",       "beq ",       "[r",      "gpu 1",      "cta 1"};
  constexpr int kSeeds = 2000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string text = litmus::print(axiomatic::generate(seed));
    for (const char* feature : features) {
      if (text.find(feature) != std::string::npos) ++programs[feature];
    }
  }
  for (const char* feature : features) {
    INFO(feature << " in " << programs[feature] << " of " << kSeeds);
    CHECK(programs[feature] >= kSeeds / 100);
    CHECK(programs[feature] < kSeeds);
  }
}

TEST_CASE("a feature that is switched off does not occur") {
  axiomatic::GeneratorOptions plain;
  plain.atomics = plain.fences = plain.barriers = plain.dependencies = plain.awaits = false;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const std::string text = litmus::print(axiomatic::generate(seed, plain));
    INFO(text);
    for (const char* feature : {"atom.", "red.", "fence.", "bar.", "xor ", "bne ", "L0:"}) {
      CHECK(text.find(feature) == std::string::npos);
    }
  }
}

TEST_CASE("the checker takes every generated program, and nearly all have an outcome") {
  int without = 0;
  constexpr int kSeeds = 1000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto test = axiomatic::generate(seed);
    const auto result = axiomatic::check(axiomatic::convert(test));
    without += result.outcomes.empty() ? 1 : 0;
  }
  // Awaits may wait for a value that no one writes.
  CHECK(without < kSeeds / 5);
}

TEST_CASE("variants of a test keep its accesses and change what orders them") {
  const litmus::Test mp = litmus::parse(
      "PTX MP\n{x=0; y=0;}\n P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;\n"
      " st.weak x, 1 | AGAIN: ;\n fence.sc.gpu | ld.acquire.gpu r0, y ;\n"
      " st.release.gpu y, 1 | bne r0, 1, AGAIN ;\n | ld.weak r1, x ;\n"
      "exists (P1:r1 == 0)",
      "mp");
  std::set<std::string> texts;
  std::size_t stale = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const litmus::Test variant = axiomatic::mutate(mp, seed);
    const std::string text = litmus::print(variant);
    INFO(text);
    REQUIRE(litmus::print(litmus::parse(text, "variant")) == text);
    texts.insert(text.substr(text.find('{')));
    const auto result = axiomatic::check(axiomatic::convert(variant));
    // Registers r0 = 1 and r1 of P1, then x = y = 1.
    for (const auto& outcome : result.outcomes) {
      REQUIRE(outcome[0] == 1);
      REQUIRE(outcome[2] == 1);
      REQUIRE(outcome[3] == 1);
    }
    stale += result.outcomes.contains({1, 0, 1, 1}) ? 1 : 0;
  }
  CHECK(texts.size() > 250);
  // Both kinds occur: variants that synchronise and variants that do not.
  CHECK(stale > 30);
  CHECK(stale < 270);
}

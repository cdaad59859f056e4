// The corpora of litmus tests through the search over the machine.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "emulator/litmus/expectation.hpp"
#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/run.hpp"
#include "tests/check/both.hpp"

namespace {

using namespace ringfence;

std::map<std::string, litmus::Test> read_corpus(const std::string& folder) {
  std::map<std::string, litmus::Test> tests;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".litmus") continue;
    litmus::Test test = litmus::parse_file(entry.path().string());
    tests.emplace(test.name, std::move(test));
  }
  return tests;
}

machine::Policy policy_of(const std::map<std::string, std::string>& settings) {
  machine::Policy policy = testing::letter();
  for (const auto& [name, value] : settings) {
    if (name == "boundary") {
      policy.boundary = value == "strict"   ? machine::Boundary::strict
                        : value == "stream" ? machine::Boundary::stream
                                            : machine::Boundary::coherent;
    } else if (name == "multicast-flag") {
      policy.multicast_flag =
          value == "strict" ? machine::MulticastFlag::strict : machine::MulticastFlag::cohere;
    } else if (name == "alias-data") {
      policy.alias_data = value == "fence-required" ? machine::AliasData::fence_required
                                                    : machine::AliasData::cohere;
    } else if (name == "load-buffering") {
      policy.load_buffering =
          value == "on" ? machine::LoadBuffering::on : machine::LoadBuffering::off;
    } else {
      FAIL("no such setting: " << name);
    }
  }
  return policy;
}

// What no order of execution has: load buffering, and fence-sc order that runs against program
// order and reads-from together. With load buffering off the tests that observe it must be Never.
bool out_of_order(const std::string& name) {
  return name.starts_with("LB+") || name == "CoRW+two-threads-weak" ||
         name == "SC+order-against-reads-from";
}

void run(const std::string& folder, std::size_t at_least, machine::LoadBuffering buffering) {
  const bool off = buffering == machine::LoadBuffering::off;
  const auto tests = read_corpus(folder);
  std::size_t checked = 0;
  for (const litmus::Expectation& expected :
       litmus::parse_expectation_file(folder + "/expected.txt")) {
    REQUIRE(tests.contains(expected.name));
    const litmus::Test& test = tests.at(expected.name);
    INFO(expected.name);
    for (const auto& [n, v] : expected.settings) INFO(n << "=" << v);
    testing::Searched searched;
    machine::Policy policy = policy_of(expected.settings);
    if (!expected.settings.contains("load-buffering")) policy.load_buffering = buffering;
    try {
      searched = testing::search(test, policy, true);
    } catch (const litmus::NotModelled&) {
      continue;
    }
    ++checked;
    const litmus::Verdict verdict = litmus::judge(test, searched.states);
    const bool left_out = off && out_of_order(expected.name);
    REQUIRE(expected.observation.has_value());
    const auto observation = left_out ? litmus::Observation::Never : *expected.observation;
    CHECK(to_string(verdict.observation) == to_string(observation));
    if (left_out) continue;
    if (expected.race) CHECK(searched.race == *expected.race);
    CHECK(searched.result.repeated == 0);
  }
  CHECK(checked >= at_least);
}

}  // namespace

TEST_CASE("the search gives every test of the corpus its verdict and its races") {
  run("tests/litmus/corpus", 230, machine::LoadBuffering::on);
}

TEST_CASE("without load buffering only what needs it is missing from the corpus") {
  run("tests/litmus/corpus", 230, machine::LoadBuffering::off);
}

TEST_CASE("the search gives the extended corpus its verdicts under the policies named") {
  run("tests/litmus/corpus-extended", 60, machine::LoadBuffering::on);
  run("tests/litmus/corpus-extended", 60, machine::LoadBuffering::off);
}

TEST_CASE("barriers hold, load buffering or not, and their broken twins do not") {
  run("tests/litmus/barriers", 14, machine::LoadBuffering::on);
  run("tests/litmus/barriers", 14, machine::LoadBuffering::off);
}

TEST_CASE("each row of a template has the answer that its row names, by search and axioms alike") {
  const auto tests = litmus::parse_tests("tests/litmus/templates/handoff.test");
  REQUIRE(tests.size() == 17);
  machine::Policy policy = testing::letter();
  policy.load_buffering = machine::LoadBuffering::on;
  for (const litmus::Test& test : tests) {
    INFO(test.name);
    CHECK(litmus::judge(test, testing::search(test, policy).states).ok);
    CHECK(testing::difference(test) == "");
  }
}

TEST_CASE("atomics of one place cost one execution for each order that somebody can tell") {
  const auto complete = [](const std::string& atomic, int threads, const std::string& condition) {
    std::string places = " ", row = " ";
    for (int t = 0; t < threads; ++t) {
      const std::string n = std::to_string(t);
      places += (t > 0 ? "| P" : "P") + n + "@cta " + n + ",gpu 0 ";
      row += (t > 0 ? "| " : "") + atomic + " ";
    }
    const litmus::Test test =
        litmus::parse("PTX t\n{ x=0; }\n" + places + ";\n" + row + ";\n" + condition + "\n", "t");
    machine::Policy policy = testing::letter();
    policy.load_buffering = machine::LoadBuffering::on;
    const testing::Searched searched = testing::search(test, policy);
    CHECK(litmus::judge(test, searched.states).ok);
    return searched.result.complete;
  };
  CHECK(complete("red.relaxed.gpu.add x, 1", 8, "forall (x == 8)") == 1);
  CHECK(complete("atom.relaxed.gpu.add r0, x, 1", 8, "forall (x == 8)") == 1);
  CHECK(complete("atom.release.gpu.max r0, x, 3", 8, "forall (x == 3)") == 1);
  // Whoever acquires, or looks at what the atomic returned, can tell.
  CHECK(complete("atom.acquire.gpu.add r0, x, 1", 3, "forall (x == 3)") == 6);
  CHECK(complete("atom.relaxed.gpu.add r0, x, 1", 3,
                 "exists (P0:r0 == 2 /\\ P1:r0 == 0 /\\ P2:r0 == 1)") == 6);
}

// The corpus of tests/litmus: verdicts derived by hand against the axiomatic checker.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <set>

#include "emulator/litmus/expectation.hpp"
#include "emulator/litmus/parser.hpp"
#include "tests/axiomatic/convert.hpp"

namespace {

using namespace ringfence;

const std::string kCorpus = "tests/litmus/corpus";

std::map<std::string, litmus::Test> read_corpus() {
  std::map<std::string, litmus::Test> tests;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    if (entry.path().extension() != ".litmus") continue;
    litmus::Test test = litmus::parse_file(entry.path().string());
    tests.emplace(test.name, std::move(test));
  }
  return tests;
}

}  // namespace

TEST_CASE("every test of the corpus has the verdict and the races that its comment derives") {
  const auto tests = read_corpus();
  const auto expectations = litmus::parse_expectation_file(kCorpus + "/expected.txt");
  CHECK(tests.size() >= 120);
  CHECK(tests.size() == expectations.size());
  for (const litmus::Expectation& expected : expectations) {
    INFO(expected.name);
    REQUIRE(tests.contains(expected.name));
    const litmus::Test& test = tests.at(expected.name);
    const auto result = axiomatic::check(axiomatic::convert(test));
    const auto verdict = litmus::judge(test, axiomatic::states(test, result));
    REQUIRE(expected.observation.has_value());
    CHECK(to_string(verdict.observation) == to_string(*expected.observation));
    // The quantifier of each test says what is expected, so every one is Ok.
    CHECK(verdict.ok);
    if (expected.race) CHECK(result.race_unobserved == *expected.race);
  }
}

TEST_CASE("without load buffering the LB tests of the corpus are never observed") {
  axiomatic::Options in_order;
  in_order.load_buffering = false;
  std::size_t seen = 0;
  for (const auto& [name, test] : read_corpus()) {
    if (!name.starts_with("LB+")) continue;
    INFO(name);
    ++seen;
    const auto result = axiomatic::check(axiomatic::convert(test), in_order);
    const auto verdict = litmus::judge(test, axiomatic::states(test, result));
    CHECK(verdict.observation == litmus::Observation::Never);
  }
  CHECK(seen >= 20);
}

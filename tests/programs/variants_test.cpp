// The table of variants: what each switch must lead to in each boundary mode. The verdicts of
// variants.json are derived from the axioms by hand, each with its reason; nothing in them was
// taken from a run.

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/programs/harness.hpp"

using namespace ringfence;
using namespace ringfence::programs;
using nlohmann::json;

namespace {

json table() {
  std::ifstream file("tests/programs/variants.json");
  REQUIRE(file);
  return json::parse(file);
}

Config config_of(const json& protocol, const json& variant) {
  Config c;
  c.protocol = protocol["protocol"];
  c.ranks = protocol["ranks"];
  c.tokens = protocol["tokens"];
  c.hidden = protocol["hidden"];
  c.inner = protocol["inner"];
  c.blocks = protocol["blocks"];
  c.calls = protocol["calls"];
  for (const std::string s : variant["set"]) {
    const std::size_t equals = s.find('=');
    c.set.emplace(s.substr(0, equals), s.substr(equals + 1));
  }
  return c;
}

// "data-race|deadlock": what is seen first may depend on the schedule.
std::set<std::string> words(const std::string& cell) {
  std::set<std::string> out;
  std::istringstream in(cell);
  for (std::string word; std::getline(in, word, '|');) out.insert(word);
  return out;
}

// From each seed: in the cells with a fault, one of those due within `within` schedules; in the
// clean ones none in `clean`. 0 leaves these or those out.
void check_table(std::uint64_t seeds, std::uint32_t within, std::uint32_t clean) {
  for (const json& protocol : table()) {
    for (const json& variant : protocol["variants"]) {
      Bench bench(config_of(protocol, variant));
      for (const machine::Boundary mode :
           {machine::Boundary::strict, machine::Boundary::stream, machine::Boundary::coherent}) {
        const std::string cell = variant[std::string(machine::name(mode))];
        const std::set<std::string> due = words(cell);
        const std::uint32_t schedules = due.contains("clean") ? clean : within;
        if (schedules == 0) continue;
        CAPTURE(protocol["protocol"].get<std::string>());
        CAPTURE(variant["set"].dump());
        CAPTURE(machine::name(mode));
        CAPTURE(cell);
        for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
          CAPTURE(seed);
          const std::string got = search(bench, mode, seed, schedules);
          CHECK_MESSAGE(due.contains(got), "got ", got);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("each variant gets the verdict that the axioms give it, in each boundary mode") {
  check_table(3, 100, 70);
}

// Longer ones, for a campaign: --no-skip.
TEST_CASE("campaign: each wrong variant is found within 2,000 schedules from each of 20 seeds" *
          doctest::skip()) {
  check_table(20, 2000, 0);
}

TEST_CASE("campaign: each right variant stays clean over 20,000 schedules" * doctest::skip()) {
  check_table(1, 0, 20000);
}

TEST_CASE("every protocol's default configuration has a row, and the modes it claims are clean") {
  for (const Protocol& p : protocols()) {
    bool found = false;
    for (const json& protocol : table()) {
      if (protocol["protocol"] != p.name) continue;
      const json& first = protocol["variants"].at(0);
      REQUIRE(first["set"].empty());
      found = true;
      for (const machine::Boundary mode : p.claims) {
        CHECK(first[std::string(machine::name(mode))] == "clean");
      }
    }
    CHECK_MESSAGE(found, p.name);
  }
}

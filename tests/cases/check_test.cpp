// The exhaustive search over compiled kernels: it tells the zoo's faults from their twins, what it
// finds replays, and a bound makes no verdict.

#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "emulator/check/explorer.hpp"
#include "emulator/schedule/shrink.hpp"
#include "tests/cases/harness.hpp"

using namespace ringfence;
using cases::test::open;
using check::Verdict;

namespace {

check::CheckResult run(const std::string& path, machine::Boundary mode, std::uint64_t executions) {
  check::CheckSpec spec;
  spec.run.policy.boundary = mode;
  spec.executions = executions;
  return check::check([&] { return open(path); }, spec);
}

// The names of the zoo's faults, without what tells them from their twins.
std::set<std::string> zoo() {
  const std::string suffix = "-fault.toml";
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("tests/zoo")) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(suffix)) names.insert(name.substr(0, name.size() - suffix.size()));
  }
  return names;
}

}  // namespace

TEST_CASE("check finds each fault of the zoo in the modes it claims, and a run that replays") {
  REQUIRE(zoo().size() >= 18);
  for (const std::string& name : zoo()) {
    const std::string path = "tests/zoo/" + name + "-fault.toml";
    CAPTURE(name);
    for (const machine::Boundary mode : open(path)->file().check.modes) {
      CAPTURE(machine::name(mode));
      const auto r = run(path, mode, 2000);
      REQUIRE(r.verdict == Verdict::fail);
      const auto program = open(path);
      const auto executor = ranks::make_inline(*program);
      schedule::RunSpec base;
      base.policy.boundary = mode;
      const auto again = executor->run(schedule::replay_spec(base, r.outcome.decisions));
      CHECK(schedule::same_run(r.outcome, again));
    }
  }
}

TEST_CASE("and no fault in its twin, within a bound") {
  for (const std::string& name : zoo()) {
    const std::string path = "tests/zoo/" + name + "-fixed.toml";
    CAPTURE(name);
    for (const machine::Boundary mode : open(path)->file().check.modes) {
      CAPTURE(machine::name(mode));
      const auto r = run(path, mode, 150);
      CHECK(r.verdict != Verdict::fail);
      CHECK(r.complete >= 1);
    }
  }
}

TEST_CASE("small kernels pass in every execution") {
  for (const char* name :
       {"early-signal", "flag-reused", "scope", "middle-barrier", "wait-equal", "counter-reset"}) {
    CAPTURE(name);
    const std::string path = std::string("tests/zoo/") + name + "-fixed.toml";
    for (const machine::Boundary mode : open(path)->file().check.modes) {
      const auto r = run(path, mode, 0);
      CHECK(r.verdict == Verdict::pass);
      CHECK(r.blocked == 0);
    }
  }
}

TEST_CASE("a bound makes the verdict of a kernel unknown") {
  const auto r = run("tests/zoo/frozen-epoch-fixed.toml", machine::Boundary::strict, 50);
  CHECK(r.verdict == Verdict::unknown);
  CHECK(r.explored < 1);
}

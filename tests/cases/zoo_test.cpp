// The bug zoo: every fault is found in every boundary mode that its case claims, within a few
// hundred schedules, and its fixed twin is clean in all of them.
#include <doctest/doctest.h>

#include <string>

#include "tests/cases/harness.hpp"

using namespace ringfence;
using namespace ringfence::cases::test;

namespace {

// Faults, and what they are found as. Where a schedule decides which symptom comes first, any of
// the kinds listed is one of this fault.
struct Fault {
  const char* name;
  const char* kinds;
};
constexpr Fault kFaults[] = {
    {"flag-reused", "deadlock"},
    {"wait-equal", "deadlock"},
    {"early-signal", "data-race"},
    {"middle-barrier", "data-race"},
    {"scope", "data-race"},
    {"reuse", "data-race"},
    {"streams", "data-race lost-signal deadlock"},
    {"groups", "data-race lost-signal deadlock"},
    {"grids", "deadlock"},
    {"idle-rank", "deadlock"},
    {"frozen-epoch", "data-race"},
    {"flag-in-vector", "data-race"},
    {"sentinel", "deadlock"},
    {"counter-reset", "lost-signal deadlock data-race"},
    {"pad-zeroed", "data-race lost-signal"},
    {"byte-flags", "data-race"},
    {"lamport-size", "replica-mismatch"},
    {"grid-beyond-pad", "out-of-bounds"},
};

}  // namespace

TEST_CASE("the bug zoo: each fault is found in the modes it claims, its twin is clean in them") {
  for (const Fault& fault : kFaults) {
    const std::string path = std::string("tests/zoo/") + fault.name;
    const auto broken = open(path + "-fault.toml");
    const auto fixed = open(path + "-fixed.toml");
    REQUIRE(broken->file().check.modes == fixed->file().check.modes);
    for (const machine::Boundary mode : broken->file().check.modes) {
      CAPTURE(fault.name);
      CAPTURE(machine::name(mode));
      const std::string kind = found(fuzz(*broken, mode, 300));
      CAPTURE(kind);
      CHECK(std::string(fault.kinds).find(kind) != std::string::npos);
      CHECK(found(fuzz(*fixed, mode, 100)) == "clean");
    }
  }
}

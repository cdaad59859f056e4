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

TEST_CASE("the bug zoo: each fault is found in the modes it is for, its twin is clean in them") {
  for (const Fault& fault : kFaults) {
    const std::string path = std::string("tests/zoo/") + fault.name;
    const auto broken = open(path + "-fault.toml");
    const auto fixed = open(path + "-fixed.toml");
    REQUIRE(broken->file().check.modes == fixed->file().check.modes);
    const cases::Check& check = broken->file().check;
    const std::vector<machine::Boundary> all{machine::Boundary::strict, machine::Boundary::stream,
                                             machine::Boundary::coherent};
    for (const machine::Boundary mode : check.names_modes ? check.modes : all) {
      CAPTURE(fault.name);
      CAPTURE(machine::name(mode));
      const std::string kind = found(fuzz(*broken, mode, 300));
      CAPTURE(kind);
      CHECK(std::string(fault.kinds).find(kind) != std::string::npos);
      CHECK(found(fuzz(*fixed, mode, 100)) == "clean");
    }
  }
}

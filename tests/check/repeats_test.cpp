// Runs that do not repeat the graph that they are to go along: what those graphs stand for is not
// explored, and no search passes for that.
#include <doctest/doctest.h>

#include <algorithm>

#include "emulator/check/explorer.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using check::LeftOut;

namespace {

enum class Path : std::uint8_t { by_time, early, late };

// Thread 0 loads `a` and stores x. Thread 1 loads z, and then loads x and stores `a`, the load
// first if x has not been stored by then (which no access of its own tells it), or always, or
// never. As the parts of a warp that wait apart do, it makes its accesses in an order that depends
// on time.
check::CheckResult search(Path path, machine::Boundary mode) {
  const auto make = [path] {
    return std::make_unique<testing::HostProgram>(
        1, [path, stored = false](testing::HostProgram& p, schedule::Agent& host,
                                  std::uint16_t) mutable {
          stored = false;
          const auto first = [&](schedule::Agent& a) {
            testing::load32(a, p.slot(0, 0), machine::Order::relaxed);
            testing::store32(a, p.slot(0, 1), 1, machine::Order::relaxed);
            stored = true;
          };
          const auto second = [&](schedule::Agent& a) {
            testing::load32(a, p.slot(0, 2), machine::Order::relaxed);
            const bool early = path == Path::by_time ? !stored : path == Path::early;
            if (early) testing::load32(a, p.slot(0, 1), machine::Order::relaxed);
            testing::store32(a, p.slot(0, 0), 1, machine::Order::relaxed);
            if (!early) testing::load32(a, p.slot(0, 1), machine::Order::relaxed);
          };
          p.launch(host, 0, {first, second});
        });
  };
  check::CheckSpec spec;
  spec.run.policy.boundary = mode;
  return check::check(make, spec);
}

}  // namespace

TEST_CASE("a search whose runs do not repeat their graphs is UNKNOWN, with the agent's name") {
  for (const auto mode : {machine::Boundary::strict, machine::Boundary::coherent}) {
    const check::CheckResult r = search(Path::by_time, mode);
    CHECK(r.verdict == check::Verdict::unknown);
    CHECK(std::any_of(r.left_out.begin(), r.left_out.end(),
                      [](const LeftOut& o) { return o.what == LeftOut::What::unreached; }));
    for (const Path path : {Path::early, Path::late}) {
      const check::CheckResult twin = search(path, mode);
      CHECK(twin.verdict == check::Verdict::pass);
      // Which of the two loads have seen the other thread's store: any, but not both where both
      // come first in program order.
      CHECK(twin.complete == (path == Path::early ? 3 : 4));
    }
  }
}

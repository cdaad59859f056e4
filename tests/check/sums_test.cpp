// Orders of sums: each is searched, and a fault that only one of them shows is found.

#include <doctest/doctest.h>

#include "emulator/check/explorer.hpp"
#include "emulator/schedule/failure.hpp"
#include "tests/support/barriers.hpp"

using namespace ringfence;
using check::Verdict;

namespace {

// One thread asks for the order of two sums; after the order `wrong` of the second it waits for
// what nobody writes.
check::Factory two_sums(std::uint32_t wrong) {
  return [wrong] {
    return std::make_unique<testing::HostProgram>(2, [wrong](testing::HostProgram& p,
                                                             schedule::Agent& host,
                                                             std::uint16_t rank) {
      p.launch(
          host, rank, {[&p, rank, wrong](schedule::Agent& a) {
            if (rank != 0) return;
            a.choose(schedule::DecisionKind::sum, 2);
            if (a.choose(schedule::DecisionKind::sum, 6) != wrong) return;
            a.await(p.slot(0, 0), {.order = machine::Order::acquire}, {machine::Compare::eq, 1});
          }});
    });
  };
}

}  // namespace

TEST_CASE("a fault of one order of a sum is found, whichever it is, and replays") {
  for (std::uint32_t wrong = 0; wrong < 6; ++wrong) {
    CAPTURE(wrong);
    const auto r = check::check_sums(two_sums(wrong), {});
    CHECK(r.verdict == Verdict::fail);
    REQUIRE(schedule::failure(r.outcome));
    CHECK(schedule::failure(r.outcome)->kind == machine::FindingKind::deadlock);
    // One order alone does not show it.
    check::CheckSpec other;
    other.sum_order = (wrong + 1) % 6;
    CHECK(check::check(two_sums(wrong), other).verdict == Verdict::pass);
  }
}

TEST_CASE("sums without a fault pass in as many searches as they have orders, within the bound") {
  const auto r = check::check_sums(two_sums(6), {});
  CHECK(r.verdict == Verdict::pass);
  CHECK(r.sum_orders == 6);
  CHECK(r.complete == 6);
  check::CheckSpec bound;
  bound.executions = 3;
  const auto some = check::check_sums(two_sums(6), bound);
  CHECK(some.verdict == Verdict::unknown);
  CHECK(some.explored < 1);
}

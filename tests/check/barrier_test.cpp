// The signal barriers: how many executions they have, and that broken ones are found.
#include "tests/support/barriers.hpp"

#include <doctest/doctest.h>

#include "emulator/check/explorer.hpp"
#include "emulator/litmus/parser.hpp"
#include "emulator/schedule/failure.hpp"
#include "tests/check/both.hpp"
#include "tests/support/barrier_litmus.hpp"

using namespace ringfence;
using check::Verdict;
using machine::Boundary;
using machine::FindingKind;
using machine::Order;
using testing::CasBarrier;
using testing::CounterBarrier;

namespace {

template <class P>
check::CheckResult run(const typename P::Shape& shape, Boundary mode = Boundary::strict,
                       bool sets = true) {
  check::CheckSpec spec;
  spec.run.policy.boundary = mode;
  spec.sets = sets;
  spec.fingerprints = true;
  return check::check([&] { return std::make_unique<P>(shape); }, spec);
}

FindingKind found(const check::CheckResult& r) {
  REQUIRE(r.verdict == Verdict::fail);
  return schedule::failure(r.outcome)->kind;
}

constexpr CasBarrier::Form kForms[] = {CasBarrier::Form::loop, CasBarrier::Form::split,
                                       CasBarrier::Form::par};
constexpr Boundary kModes[] = {Boundary::strict, Boundary::stream, Boundary::coherent};

}  // namespace

TEST_CASE("a barrier of CAS slots has one execution, whatever its shape, ranks and mode") {
  for (const auto form : kForms) {
    for (const Boundary mode : kModes) {
      for (const std::uint16_t ranks : {2, 3, 4, 8}) {
        CAPTURE(static_cast<int>(form));
        CAPTURE(ranks);
        const auto r = run<CasBarrier>({.ranks = ranks, .form = form}, mode);
        CHECK(r.verdict == Verdict::pass);
        CHECK(r.complete == 1);
        CHECK(r.blocked == 0);
        CHECK(r.abandoned == 0);
      }
    }
  }
}

TEST_CASE("a barrier of CAS slots that is used twice still has one execution") {
  const auto r = run<CasBarrier>({.ranks = 3, .calls = 2});
  CHECK(r.verdict == Verdict::pass);
  CHECK(r.complete == 1);
}

TEST_CASE("a relaxed or half relaxed barrier of CAS slots races") {
  for (const auto form : kForms) {
    for (const std::uint16_t ranks : {2, 4, 8}) {
      CHECK(found(run<CasBarrier>(
                {.ranks = ranks, .form = form, .put = Order::relaxed, .wait = Order::relaxed})) ==
            FindingKind::data_race);
      CHECK(found(run<CasBarrier>({.ranks = ranks, .form = form, .put = Order::relaxed})) ==
            FindingKind::data_race);
      CHECK(found(run<CasBarrier>({.ranks = ranks, .form = form, .wait = Order::relaxed})) ==
            FindingKind::data_race);
    }
  }
}

TEST_CASE("a signal that is missing is a deadlock, and nothing that completes") {
  for (const auto form : kForms) {
    const auto r = run<CasBarrier>({.form = form, .missing = true});
    CHECK(found(r) == FindingKind::deadlock);
    CHECK(r.complete == 0);
    CHECK(r.outcome.stuck.size() >= 1);
  }
  CHECK(found(run<CounterBarrier>({.missing = true})) == FindingKind::deadlock);
}

TEST_CASE("a barrier by arrival counters has one execution while arrivals are a set") {
  for (const Boundary mode : kModes) {
    for (const std::uint16_t ranks : {2, 3, 4, 8}) {
      CAPTURE(ranks);
      const auto r = run<CounterBarrier>({.ranks = ranks}, mode);
      CHECK(r.verdict == Verdict::pass);
      CHECK(r.complete == 1);
      CHECK(r.blocked == 0);
      CHECK(r.ordered_cells == 0);
    }
  }
}

TEST_CASE("and (R!)^R where their order counts, with the same verdict") {
  const auto two = run<CounterBarrier>({.ranks = 2}, Boundary::strict, false);
  CHECK(two.verdict == Verdict::pass);
  CHECK(two.complete == 4);
  const auto three = run<CounterBarrier>({.ranks = 3}, Boundary::strict, false);
  CHECK(three.verdict == Verdict::pass);
  CHECK(three.complete == 216);
  CHECK(three.repeated == 0);
  const auto coherent = run<CounterBarrier>({.ranks = 3}, Boundary::coherent, false);
  CHECK(coherent.complete == 216);
  CHECK(coherent.repeated == 0);
}

TEST_CASE("a counter barrier without release or without acquire races, with the rule and without") {
  for (const bool sets : {true, false}) {
    CHECK(found(run<CounterBarrier>({.ranks = 3, .add = Order::relaxed}, Boundary::strict, sets)) ==
          FindingKind::data_race);
    CHECK(found(run<CounterBarrier>({.ranks = 3, .poll = Order::relaxed}, Boundary::strict,
                                    sets)) == FindingKind::data_race);
  }
}

TEST_CASE("reductions whose parts a wait could see are not taken for a set") {
  // Two add 1 each and a third waits for 1: it may be satisfied before the second arrival, or
  // never.
  const auto make = [] {
    return std::make_unique<testing::HostProgram>(
        3, [](testing::HostProgram& p, schedule::Agent& host, std::uint16_t rank) {
          p.launch(host, rank, {[&p, rank](schedule::Agent& a) {
                     if (rank == 2) {
                       a.await(p.slot(0, 0), {.order = Order::acquire}, {machine::Compare::eq, 1});
                       return;
                     }
                     const std::uint32_t one = 1;
                     a.reduce(p.slot(0, 0), {.order = Order::release},
                              std::as_bytes(std::span(&one, 1)), testing::add);
                   }});
        });
  };
  check::CheckSpec spec;
  spec.run.policy.boundary = Boundary::strict;
  spec.all = true;
  const auto r = check::check(make, spec);
  CHECK(r.ordered_cells == 1);
  CHECK(r.complete == 2);  // each of the two may be the one that it sees
  CHECK(r.blocked == 2);   // and in either order it may miss that
}

TEST_CASE("two workers find what one finds") {
  check::CheckSpec spec;
  spec.run.policy.boundary = Boundary::strict;
  spec.sets = false;
  const auto make = [] {
    return std::make_unique<CounterBarrier>(CounterBarrier::Shape{.ranks = 3});
  };
  const auto r = check::check(make, spec, 2);
  CHECK(r.verdict == Verdict::pass);
  CHECK(r.complete == 216);
}

TEST_CASE("progress tells how many graphs wait, as it goes on") {
  check::CheckSpec spec;
  spec.run.policy.boundary = Boundary::strict;
  spec.sets = false;
  spec.seconds = 0.6;  // of a search of 24^4 executions
  const auto make = [] {
    return std::make_unique<CounterBarrier>(CounterBarrier::Shape{.ranks = 4});
  };
  std::uint64_t told = 0, waited = 0;
  check::check(make, spec, 1, {}, [&](const check::CheckResult& r) {
    ++told;
    waited += r.waiting > 0 ? 1 : 0;
  });
  CHECK(told >= 1);
  CHECK(waited == told);
}

TEST_CASE("a bound that ends the search makes no verdict") {
  check::CheckSpec spec;
  spec.run.policy.boundary = Boundary::strict;
  spec.sets = false;
  spec.executions = 10;
  const auto r = check::check(
      [] { return std::make_unique<CounterBarrier>(CounterBarrier::Shape{.ranks = 3}); }, spec);
  CHECK(r.verdict == Verdict::unknown);
  CHECK(r.explored > 0);
  CHECK(r.explored < 1);
}

namespace {

testing::Searched with_load_buffering(const std::string& text) {
  machine::Policy policy = testing::letter();
  policy.load_buffering = machine::LoadBuffering::on;
  return testing::search(litmus::parse(text, "barrier"), policy);
}

}  // namespace

TEST_CASE("load buffering adds nothing to a barrier of compare-and-swaps: its waits are control") {
  for (const bool par : {false, true}) {
    INFO(par);
    const auto right = with_load_buffering(testing::cas_barrier_litmus(8, par));
    CHECK(right.result.complete == 1);
    CHECK(right.result.out_of_order == 0);
    CHECK(right.result.unjudged == 0);
    CHECK_FALSE(right.race);
    const auto wrong = with_load_buffering(testing::cas_barrier_litmus(2, par, "relaxed"));
    CHECK(wrong.race);
  }
}

TEST_CASE("a bound that ends the search out of order is not taken for its end") {
  machine::Policy policy = testing::letter();
  policy.load_buffering = machine::LoadBuffering::on;
  const litmus::Test test = litmus::parse_file("tests/litmus/barriers/Tokenweave+2.litmus");
  const auto bounded = testing::search(test, policy, false, 20);
  CHECK(bounded.result.verdict == Verdict::unknown);
  CHECK(bounded.result.explored < 1);
  CHECK(testing::search(test, policy).result.explored == 1);
}

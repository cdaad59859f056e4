// Waits that several writes end alike, of which the search explores the first (first_end.cpp):
// against the axioms, and against the search without that rule.
#include <doctest/doctest.h>

#include <set>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"
#include "tests/axiomatic/generator.hpp"
#include "tests/check/both.hpp"

using namespace ringfence;

namespace {

// A program of waits that several writes end alike. Most of them store each to a location of the
// thread's own, at scope sys, as flags are: there the first write stands for the others.
litmus::Test with_alike_ends(std::uint64_t seed) {
  axiomatic::GeneratorOptions options;
  options.unread_awaits = true;
  options.fences = seed % 3 == 0;
  options.atomics = options.barriers = seed % 5 == 0;
  litmus::Test test = axiomatic::generate(seed, options);
  if (seed % 5 == 0) return test;
  for (std::size_t t = 0; t < test.threads.size(); ++t) {
    for (litmus::Instruction& i : test.threads[t].instructions) {
      if (auto* store = std::get_if<litmus::Store>(&i.what)) {
        store->address.base = static_cast<litmus::LocationId>(t % test.locations.size());
        if (store->order != litmus::Order::weak) store->scope = litmus::Scope::sys;
      } else if (auto* load = std::get_if<litmus::Load>(&i.what)) {
        if (load->order != litmus::Order::weak) load->scope = litmus::Scope::sys;
      }
    }
  }
  return test;
}

// Threads that store to several locations of their own each and wait for those of others, as the
// lanes of a warp do.
litmus::Test with_several_flags(std::uint64_t seed) {
  axiomatic::GeneratorOptions options;
  options.unread_awaits = true;
  options.atomics = options.barriers = options.fences = false;
  options.max_threads = 3;
  options.min_events = 6;
  options.max_events = 10;
  options.max_locations = 6;
  litmus::Test test = axiomatic::generate(seed, options);
  const std::size_t threads = test.threads.size();
  for (std::size_t t = 0; t < threads; ++t) {
    for (litmus::Instruction& i : test.threads[t].instructions) {
      if (auto* store = std::get_if<litmus::Store>(&i.what)) {
        if (const auto* at = std::get_if<litmus::LocationId>(&store->address.base)) {
          const std::size_t own = static_cast<std::size_t>(*at) / threads * threads + t;
          store->address.base = static_cast<litmus::LocationId>(
              own < test.locations.size() ? own : t % test.locations.size());
        }
        if (store->order != litmus::Order::weak) store->scope = litmus::Scope::sys;
      } else if (auto* load = std::get_if<litmus::Load>(&i.what)) {
        if (load->order != litmus::Order::weak) load->scope = litmus::Scope::sys;
      }
    }
  }
  return test;
}

}  // namespace

TEST_CASE("generated programs with waits that end alike have the outcomes of every value") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const litmus::Test test = with_alike_ends(seed);
    INFO(litmus::print(test));
    CHECK(testing::difference(test) == "");
    if (seed % 2 == 0) CHECK(testing::difference(test, machine::LoadBuffering::off) == "");
  }
}

// No axioms say what mode coherent admits: the search without the rule does.
TEST_CASE("waits that end alike lose no outcome in mode coherent") {
  machine::Policy policy;
  policy.boundary = machine::Boundary::coherent;
  for (const auto& make : {with_alike_ends, with_several_flags}) {
    std::size_t fewer = 0;
    for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
      const litmus::Test test = make(seed);
      INFO(litmus::print(test));
      const auto states = [](const testing::Searched& searched) {
        std::set<litmus::State> all;
        for (const auto& [state, n] : searched.states) all.insert(state);
        return all;
      };
      const testing::Searched with = testing::search(test, policy);
      const testing::Searched without =
          testing::search(test, policy, false, 0, false, testing::Races::passed_over, false);
      CHECK(states(with) == states(without));
      CHECK(with.race == without.race);
      CHECK(with.hangs == without.hangs);
      if (with.result.complete < without.result.complete) ++fewer;
    }
    CHECK(fewer > 20);
  }
}

TEST_CASE("a wait ends on a later write where coherence order leaves no time for the first") {
  // P1's y=2 is the last: P0's y=1 came before it, and f=2 before that. So P1 finds f=2.
  const litmus::Test test = litmus::parse(R"(PTX late
{
f=0;
y=0;
}
 P0@cta 0,gpu 0       | P1@cta 0,gpu 1       ;
 st.relaxed.sys f, 1  | st.relaxed.sys y, 2  ;
 st.relaxed.sys f, 2  | L0:                  ;
 st.relaxed.sys y, 1  | ld.relaxed.sys r0, f ;
                      | beq r0, 0, L0        ;
locations [y;]
exists
(y=2)
)",
                                          "late");
  machine::Policy policy;
  policy.boundary = machine::Boundary::coherent;
  const testing::Searched searched = testing::search(test, policy, true);
  CHECK(searched.states.size() == 2);
  CHECK(searched.result.repeated == 0);
}

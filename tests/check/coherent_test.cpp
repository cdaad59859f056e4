// Mode coherent, of which no axioms are: what schedules end with against the search.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"
#include "emulator/litmus/run.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/inline_executor.hpp"
#include "tests/axiomatic/generator.hpp"
#include "tests/check/alike.hpp"
#include "tests/check/both.hpp"
#include "tests/check/counted.hpp"
#include "tests/check/interleaved.hpp"

using namespace ringfence;

namespace {

machine::Policy coherent() {
  machine::Policy policy;
  policy.boundary = machine::Boundary::coherent;
  return policy;
}

// Calls f with each of as many runs, past all findings but those of `kept`, until it returns false.
template <class F>
void each_schedule(schedule::InlineExecutor& executor, std::uint64_t schedules, bool weak_points,
                   std::optional<machine::FindingKind> kept, F f) {
  schedule::RunSpec spec;
  spec.policy = coherent();
  spec.weak_points = weak_points;
  spec.expected_points = 12;
  for (int k = 0; k < machine::kFindingKinds; ++k) {
    const auto kind = static_cast<machine::FindingKind>(k);
    if (kind != kept) spec.ignore.push_back(kind);
  }
  for (std::uint64_t n = 0; n < schedules; ++n) {
    spec.strategy.kind =
        n % 2 == 0 ? schedule::StrategySpec::Kind::pct : schedule::StrategySpec::Kind::random;
    spec.strategy.seed = n;
    spec.strategy.stale = n % 3 == 0 ? 0.2 : 0.5;
    if (!f(executor.run(spec))) return;
  }
}

// The final states of as many schedules, past all findings.
std::set<litmus::State> fuzzed(const litmus::Test& test, std::uint64_t schedules) {
  std::set<litmus::State> states;
  litmus::LitmusProgram program(test);
  schedule::InlineExecutor executor(program);
  const auto newest = [&](machine::Address at, std::uint32_t bytes) {
    std::uint64_t value = 0;
    executor.machine().peek(at, std::as_writable_bytes(std::span(&value, 1)).first(bytes));
    return std::vector<std::uint64_t>{value};
  };
  each_schedule(executor, schedules, true, {}, [&](const schedule::Outcome& run) {
    if (run.end != schedule::RunEnd::complete) return true;
    for (const litmus::State& s : program.final_states(newest)) states.insert(s);
    return true;
  });
  return states;
}

// Whether one of as many schedules ends with a race; past what else may stop it.
bool fuzz_finds_race(const litmus::Test& test, std::uint64_t schedules) {
  litmus::LitmusProgram program(test);
  schedule::InlineExecutor executor(program);
  bool found = false;
  each_schedule(executor, schedules, false, machine::FindingKind::data_race,
                [&](const schedule::Outcome& run) {
                  found = schedule::failure(run).has_value();
                  return !found;
                });
  return found;
}

// How many states only schedules have.
std::size_t missing(const std::set<litmus::State>& fuzzed, const testing::Searched& searched) {
  return static_cast<std::size_t>(
      std::count_if(fuzzed.begin(), fuzzed.end(),
                    [&](const litmus::State& s) { return !searched.states.contains(s); }));
}

bool leaves_order_out(const testing::Searched& searched) {
  return std::any_of(
      searched.result.left_out.begin(), searched.result.left_out.end(),
      [](const check::LeftOut& o) { return o.what == check::LeftOut::What::unordered; });
}

}  // namespace

TEST_CASE("what schedules end with in mode coherent the search finds, or says what it left out") {
  std::size_t judged = 0, told = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    const litmus::Test test = axiomatic::generate(seed);
    const testing::Searched searched = testing::search(test, coherent(), true);
    // Past a deadlock, runs in which the wait would have ended sooner are not explored.
    if (searched.result.blocked > 0 || searched.bounded) continue;
    INFO(litmus::print(test));
    ++judged;
    if (searched.result.left_out.empty()) CHECK(searched.result.repeated == 0);
    if (missing(fuzzed(test, 200), searched) == 0) continue;
    ++told;
    CHECK(leaves_order_out(searched));
  }
  CHECK(judged > 1000);
  CHECK(told > 50);
}

// What check_by_stream rests on.
TEST_CASE("every execution in mode coherent is one in mode stream, but for races") {
  machine::Policy stream;
  stream.boundary = machine::Boundary::stream;
  std::size_t judged = 0, fewer = 0, hangs = 0;
  for (std::uint64_t seed = 1; seed <= 6000; ++seed) {
    axiomatic::GeneratorOptions options;
    options.atomic_awaits = seed % 3 == 0;
    options.barriers = seed % 3 != 0;
    const litmus::Test test =
        seed % 3 == 1 ? testing::counted(seed) : axiomatic::generate(seed, options);
    const testing::Searched at_point = testing::search(test, coherent());
    const testing::Searched all = testing::search(test, stream);
    if (at_point.bounded || all.bounded || all.race || all.race_of_blocked) continue;
    INFO(litmus::print(test));
    ++judged;
    CHECK_FALSE(at_point.race);
    for (const auto& [state, n] : at_point.states) CHECK(all.states.contains(state));
    for (const auto& hang : at_point.hangs) CHECK(all.hangs.contains(hang));
    if (at_point.states.size() < all.states.size()) ++fewer;
    if (!at_point.hangs.empty()) ++hangs;
  }
  CHECK(judged > 3000);
  CHECK(fewer > 30);
  CHECK(hangs > 50);
}

TEST_CASE("a wait that began to be over too soon ends on the write that ends it again") {
  // P1 takes what P0 waits for away, and gives it back: 0, 1, 2 in y, of which 1 ends no wait.
  // Where P0's x=1 comes behind P1's, P0 can have seen the 2 alone.
  const auto searched = [](const std::string& again) {
    const litmus::Test test = litmus::parse(R"(PTX again
{
x=0;
y=0;
}
 P0@cta 0,gpu 0       | P1@cta 1,gpu 0       ;
 st.relaxed.sys x, 1  | st.relaxed.sys y, 1  ;
 L0:                  | st.relaxed.sys x, 2  ;
 ld.relaxed.sys r0, y | st.relaxed.sys y, )" + again +
                                                R"(  ;
 beq r0, 1, L0        |                      ;
locations [x;P0:r0;]
exists
(x=1 /\ P0:r0=2)
)",
                                            "again");
    const testing::Searched s = testing::search(test, coherent(), true);
    CHECK(s.result.repeated == 0);
    CHECK(missing(fuzzed(test, 500), s) == 0);
    return s;
  };
  // x=2 with r0=0 and r0=2, x=1 with r0=2.
  const testing::Searched ends = searched("2");
  CHECK(ends.states.size() == 3);
  CHECK(ends.hangs.empty());
  // Not given back: x=2 with r0=0, or P0 waits for ever.
  const testing::Searched hangs = searched("1");
  CHECK(hangs.states.size() == 1);
  CHECK_FALSE(hangs.hangs.empty());
}

TEST_CASE("a write of a narrower scope may land before one that is there, though it knows of it") {
  // P1 has heard of x=1, by y, without synchronisation; its x=2 may precede it in coherence.
  const litmus::Test test = litmus::parse(R"(PTX knows
{
x=0;
y=0;
}
 P0@cta 0,gpu 0       | P1@cta 1,gpu 0       ;
 st.relaxed.sys x, 1  | ld.relaxed.sys r0, y ;
 st.relaxed.sys y, 1  | st.relaxed.gpu x, 2  ;
exists
(x=1 /\ P1:r0=1)
)",
                                          "knows");
  const testing::Searched searched = testing::search(test, coherent(), true);
  CHECK(searched.states.size() == 4);
  CHECK(missing(fuzzed(test, 500), searched) == 0);
  CHECK(searched.result.left_out.empty());
}

TEST_CASE("the order of racing writes that a read at the point of coherence sees is left out") {
  const auto race = [](const std::string& first) {
    return litmus::parse("PTX race\n{\nx=0;\n}\n P0@cta 0,gpu 0 | P1@cta 1,gpu 1 ;\n " + first +
                             " | st.relaxed.sys x, 4 ;\nlocations [x;]\nexists\n(x=1)\n",
                         "race");
  };
  CHECK(leaves_order_out(testing::search(race("st.weak x, 1"), coherent())));
  CHECK(leaves_order_out(testing::search(race("st.relaxed.gpu x, 1"), coherent())));
  CHECK_FALSE(leaves_order_out(testing::search(race("st.relaxed.sys x, 1"), coherent())));
}

TEST_CASE("a weak write that is executed before a read that it races with hides no race") {
  const auto races = [](const std::string& threads) {
    const litmus::Test test = litmus::parse(
        "PTX race\n{\nx=0;\n}\n" + threads + "locations [x;]\nexists\n(0 == 0)\n", "race");
    const testing::Searched all =
        testing::search(test, coherent(), false, 0, false, testing::Races::end);
    CHECK(all.result.left_out.empty());
    return all.race_found;
  };
  // The addition of 1 is known only by a wait for both.
  const auto waits = [](const std::string& last) {
    return " P0@cta 0,gpu 0 | P1@cta 0,gpu 1 | P2@cta 0,gpu 2 ;\n"
           " W0: | red.relaxed.sys.add x, 1 | red.relaxed.sys.add x, 2 ;\n"
           " ld.acquire.sys r0, x | | ;\n blt r0, 1, W0 | | ;\n W1: | | ;\n"
           " ld.acquire.sys r0, x | | ;\n blt r0, " +
           last + ", W1 | | ;\n st.weak x, 9 | | ;\n";
  };
  CHECK(races(waits("2")));
  CHECK_FALSE(races(waits("3")));
  // A look in vain sees what a weak write has blocked.
  const auto polls = [](const std::string& stores) {
    return " P0@cta 0,gpu 0 | P1@cta 0,gpu 1 | P2@cta 0,gpu 0 ;\n" + stores +
           " | | ld.relaxed.sys r0, x ;\n | | beq r0, 1, L0 ;\n";
  };
  CHECK(races(polls(" st.weak x, 1 | | L0: ;\n")));
  CHECK(races(polls(" st.weak x, 1 | | L0: ;\n st.relaxed.sys x, 2 | | ;\n")));
  CHECK(races(polls(" st.weak x, 1 | st.relaxed.sys x, 2 | L0: ;\n")));
  CHECK_FALSE(races(polls(" st.relaxed.sys x, 1 | st.relaxed.sys x, 2 | L0: ;\n")));
}

TEST_CASE("of a race in mode coherent that schedules find the search knows") {
  std::size_t racing = 0, passed = 0;
  for (std::uint64_t seed = 1; seed <= 800; ++seed) {
    for (const litmus::Test& test :
         {axiomatic::generate(seed), testing::counted(seed), testing::with_waits(seed)}) {
      const testing::Searched all =
          testing::search(test, coherent(), false, 0, false, testing::Races::end);
      INFO(litmus::print(test));
      if (all.race_found) {
        ++racing;
      } else if (all.result.left_out.empty() && !all.bounded) {
        ++passed;
        CHECK_FALSE(fuzz_finds_race(test, 60));
      }
    }
  }
  CHECK(racing > 400);
  CHECK(passed > 400);
}

TEST_CASE("a wait that what is newest blocks may have ended before that came") {
  const auto difference = [](const std::string& stores, const std::string& ends) {
    return testing::difference_of_order(
        litmus::parse("PTX sooner\n{\nx=0;\ny=0;\n}\n"
                      " P0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\n" +
                          stores + ends + "locations [x;y;1:r0;]\nexists\n(0 == 0)\n",
                      "sooner"));
  };
  const std::string stores =
      " st.relaxed.sys x, 1 | L0: ;\n st.relaxed.sys x, 2 | ld.relaxed.sys r0, x ;\n";
  CHECK(difference(stores, " | bne r0, 1, L0 ;\n") == "");
  CHECK(difference(stores, " | beq r0, 2, L0 ;\n | st.relaxed.sys x, 3 ;\n") == "");
  CHECK(difference(stores, " | bne r0, 4, L0 ;\n") == "");
  // Both wait for what the other one's store takes away.
  CHECK(difference(" st.relaxed.sys x, 1 | st.relaxed.sys y, 1 ;\n L1: | L0: ;\n"
                   " ld.relaxed.sys r0, y | ld.relaxed.sys r0, x ;\n",
                   " bne r0, 0, L1 | bne r0, 0, L0 ;\n") == "");
}

TEST_CASE("strong accesses at scope sys in mode coherent have the outcomes of the interleavings") {
  int waiting = 0, not_compared = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const litmus::Test test = testing::all_strong(testing::with_waits(seed));
    INFO(litmus::print(test));
    try {
      const std::string difference = testing::difference_of_order(test);
      CHECK(difference == "");
      if (!testing::interleaved(test).hangs.empty()) ++waiting;
    } catch (const std::invalid_argument&) {
      ++not_compared;
    }
  }
  CHECK(waiting > 300);
  CHECK(not_compared < 600);
}

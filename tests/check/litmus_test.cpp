// The corpora of litmus tests through the search over the machine.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <set>

#include "emulator/litmus/expectation.hpp"
#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/run.hpp"
#include "tests/axiomatic/convert.hpp"
#include "tests/check/both.hpp"

namespace {

using namespace ringfence;

const axiomatic::Options kInOrder = [] {
  axiomatic::Options options;
  options.load_buffering = options.sc_against_reads_from = false;
  return options;
}();

std::map<std::string, litmus::Test> read_corpus(const std::string& folder) {
  std::map<std::string, litmus::Test> tests;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".litmus") continue;
    litmus::Test test = litmus::parse_file(entry.path().string());
    tests.emplace(test.name, std::move(test));
  }
  return tests;
}

machine::Policy policy_of(const std::map<std::string, std::string>& settings) {
  machine::Policy policy = testing::letter();
  for (const auto& [name, value] : settings) {
    if (name == "boundary") {
      policy.boundary = value == "strict"   ? machine::Boundary::strict
                        : value == "stream" ? machine::Boundary::stream
                                            : machine::Boundary::coherent;
    } else if (name == "multicast-flag") {
      policy.multicast_flag =
          value == "strict" ? machine::MulticastFlag::strict : machine::MulticastFlag::cohere;
    } else if (name == "alias-data") {
      policy.alias_data = value == "fence-required" ? machine::AliasData::fence_required
                                                    : machine::AliasData::cohere;
    } else if (name == "load-buffering") {
      policy.load_buffering =
          value == "on" ? machine::LoadBuffering::on : machine::LoadBuffering::off;
    } else {
      FAIL("no such setting: " << name);
    }
  }
  return policy;
}

// What no order of execution has: load buffering, and fence-sc order that runs against program
// order and reads-from together. With load buffering off the tests that observe it must be Never.
bool out_of_order(const std::string& name) {
  return name.starts_with("LB+") || name == "CoRW+two-threads-weak" ||
         name == "SC+order-against-reads-from";
}

void run(const std::string& folder, std::size_t at_least, machine::LoadBuffering buffering) {
  const bool off = buffering == machine::LoadBuffering::off;
  const auto tests = read_corpus(folder);
  std::size_t checked = 0;
  for (const litmus::Expectation& expected :
       litmus::parse_expectation_file(folder + "/expected.txt")) {
    REQUIRE(tests.contains(expected.name));
    const litmus::Test& test = tests.at(expected.name);
    INFO(expected.name);
    for (const auto& [n, v] : expected.settings) INFO(n << "=" << v);
    testing::Searched searched;
    machine::Policy policy = policy_of(expected.settings);
    if (!expected.settings.contains("load-buffering")) policy.load_buffering = buffering;
    try {
      searched = testing::search(test, policy, true);
    } catch (const litmus::NotModelled&) {
      continue;
    }
    ++checked;
    const litmus::Verdict verdict = litmus::judge(test, searched.states);
    const bool left_out = off && out_of_order(expected.name);
    REQUIRE(expected.observation.has_value());
    const auto observation = left_out ? litmus::Observation::Never : *expected.observation;
    CHECK(to_string(verdict.observation) == to_string(observation));
    if (left_out) continue;
    if (expected.race) CHECK(searched.race == *expected.race);
    CHECK(searched.result.repeated == 0);
  }
  CHECK(checked >= at_least);
}

}  // namespace

TEST_CASE("the search gives every test of the corpus its verdict and its races") {
  run("tests/litmus/corpus", 230, machine::LoadBuffering::on);
}

TEST_CASE("without load buffering only what needs it is missing from the corpus") {
  run("tests/litmus/corpus", 230, machine::LoadBuffering::off);
}

TEST_CASE("the search gives the extended corpus its verdicts under the policies named") {
  run("tests/litmus/corpus-extended", 60, machine::LoadBuffering::on);
  run("tests/litmus/corpus-extended", 60, machine::LoadBuffering::off);
}

TEST_CASE("barriers hold, load buffering or not, and their broken twins do not") {
  run("tests/litmus/barriers", 14, machine::LoadBuffering::on);
  run("tests/litmus/barriers", 14, machine::LoadBuffering::off);
}

TEST_CASE("mbarriers, a cluster's barrier and copies order what the manual says they order") {
  run("tests/litmus/asynchronous", 28, machine::LoadBuffering::off);
  for (const auto& [name, test] : read_corpus("tests/litmus/asynchronous")) {
    INFO(name);
    const auto result = axiomatic::check(axiomatic::convert(test), kInOrder);
    CHECK(litmus::judge(test, axiomatic::states(test, result)).ok);
    CHECK_FALSE(result.undefined);
    // Of a race the machine has the copy's accesses where it is issued alone.
    if (!result.race_unobserved) CHECK(testing::difference(test) == "");
  }
}

TEST_CASE("an order of arrivals that is undefined ends a test with the line and the reason") {
  const auto reason = [](const std::string& first, const std::string& second) {
    const litmus::Test test = litmus::parse(
        "PTX t\n{ mbarrier m=1; mbarrier n=2; }\n"
        "P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;\n" +
            first + " | " + second + " ;\nexists (0 == 0)\n",
        "t");
    CHECK(axiomatic::check(axiomatic::convert(test), kInOrder).undefined);
    try {
      testing::search(test, testing::letter());
    } catch (const schedule::ProgramError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto says = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(says(reason("mbarrier.arrive m", "mbarrier.arrive m"),
             "arrives in a phase before anybody saw the last one complete"));
  CHECK(says(reason("mbarrier.arrive.expect_tx.release.cta m, 16", "mbarrier.arrive m"),
             "arrives at a phase that has all its arrivals"));
}

TEST_CASE("each row of a template has the answer that its row names, by search and axioms alike") {
  const auto tests = litmus::parse_tests("tests/litmus/templates/handoff.test");
  REQUIRE(tests.size() == 17);
  machine::Policy policy = testing::letter();
  policy.load_buffering = machine::LoadBuffering::on;
  for (const litmus::Test& test : tests) {
    INFO(test.name);
    CHECK(litmus::judge(test, testing::search(test, policy).states).ok);
    CHECK(testing::difference(test) == "");
  }
}

namespace {

// `threads` threads of one gpu, each in a block of its own, with these rows of code.
litmus::Test of_each(const std::vector<std::string>& rows, int threads,
                     const std::string& condition) {
  std::string text = "PTX t\n{ x=0; y=0; }\n ";
  for (int t = 0; t < threads; ++t) {
    const std::string n = std::to_string(t);
    text += (t > 0 ? "| P" : "P") + n + "@cta " + n + ",gpu 0 ";
  }
  for (const std::string& row : rows) {
    text += ";\n ";
    for (int t = 0; t < threads; ++t) text += (t > 0 ? "| " : "") + row + " ";
  }
  return litmus::parse(text + ";\n" + condition + "\n", "t");
}

testing::Searched search_all(const litmus::Test& test, bool all_run = false) {
  machine::Policy policy = testing::letter();
  policy.load_buffering = machine::LoadBuffering::on;
  return testing::search(test, policy, false, 0, all_run);
}

std::uint64_t executions(const std::vector<std::string>& rows, int threads,
                         const std::string& condition) {
  const litmus::Test test = of_each(rows, threads, condition);
  const testing::Searched searched = search_all(test);
  CHECK(litmus::judge(test, searched.states).ok);
  std::uint64_t all = 0;
  for (const auto& [state, n] : searched.states) all += n;
  return all;
}

}  // namespace

TEST_CASE("atomics of one place cost one execution for each end that somebody can tell") {
  const std::string add = "atom.relaxed.gpu.add r0, x, 1";
  CHECK(executions({"red.relaxed.gpu.add x, 1"}, 8, "forall (x == 8)") == 1);
  CHECK(executions({add}, 8, "forall (x == 8)") == 1);
  CHECK(executions({"atom.release.gpu.max r0, x, 3"}, 8, "forall (x == 3)") == 1);
  // Read, but by nobody whom the condition asks.
  CHECK(executions({add, "add r1, r0, 1"}, 8, "forall (x == 8)") == 1);
  CHECK(executions({"st.weak y, 1", add, "mul r1, r0, r0"}, 8, "forall (x == 8)") == 1);
  // What is acquired orders nothing behind it.
  CHECK(executions({"atom.acquire.gpu.add r0, x, 1"}, 8, "forall (x == 8)") == 1);
  CHECK(executions({"st.weak y, 1", "atom.acq_rel.gpu.add r0, x, 1"}, 8, "forall (x == 8)") == 1);
  // One of them asked: its place among the others; of two, their places.
  CHECK(executions({add}, 8, "exists (P3:r0 == 7)") == 8);
  CHECK(executions({add}, 8, "exists (P3:r0 == 7 /\\ P5:r0 == 0)") == 56);
  CHECK(executions({add}, 5,
                   "exists (P0:r0 == 2 /\\ P1:r0 == 0 /\\ P2:r0 == 1 /\\ P3:r0 == 4 "
                   "/\\ P4:r0 == 3)") == 120);
  // The last exchange is seen, the order of the others is not.
  CHECK(executions({"atom.relaxed.gpu.exch r0, x, 1"}, 8, "forall (x == 1)") == 1);
  CHECK(executions({"add r1, r0, 1", "bne r1, 1, OUT", add, "OUT:"}, 8, "forall (x == 8)") == 1);
  // Whoever acquires for something behind it can tell.
  CHECK(executions({"atom.acquire.gpu.add r0, x, 1", "ld.weak r1, y"}, 3, "forall (x == 3)") == 6);
}

TEST_CASE("exchanges that nobody reads cost one execution, and each of them may be the last") {
  // Beside other accesses, so that the search runs them: each thread's own value, and y.
  const auto test = [](const std::vector<std::string>& rows, int threads, const std::string& c) {
    litmus::Test t = of_each(rows, threads, c);
    int value = 0;
    for (litmus::Thread& thread : t.threads) {
      for (litmus::Instruction& i : thread.instructions) {
        auto* const exchange = std::get_if<litmus::Atomic>(&i.what);
        if (exchange != nullptr) exchange->value = litmus::Constant{++value};
      }
    }
    return t;
  };
  const auto searched = [&](const std::vector<std::string>& rows, int threads,
                            const std::string& c) {
    const litmus::Test t = test(rows, threads, c);
    CHECK(testing::difference(t) == "");
    return search_all(t);
  };
  for (const std::string order : {"relaxed", "release", "acq_rel"}) {
    const std::string one = "atom." + order + ".gpu.exch r0, x, 1";
    const testing::Searched s = searched({"st.relaxed.gpu y, 1", one}, 4, "forall (x > 0)");
    CHECK(s.result.complete == 24);  // y's: by coherence
    CHECK(s.states.size() == 4);
    const testing::Searched t = searched({"ld.relaxed.gpu r1, y", one}, 4, "forall (x > 0)");
    CHECK(t.result.complete == 1);
    CHECK(t.states.size() == 4);
  }
  // A thread's first one of two is never the last.
  const testing::Searched two = searched(
      {"ld.relaxed.gpu r1, y", "atom.relaxed.gpu.exch r0, x, 1", "atom.relaxed.gpu.exch r2, x, 1"},
      2, "forall (x > 0)");
  CHECK(two.result.complete == 1);
  CHECK(two.states.size() == 2);
  // Who reads the location, or what an exchange read, can tell their order.
  const auto orders = [&](const std::vector<std::string>& rows, const std::string& c) {
    return searched(rows, 3, c).result.complete;
  };
  const std::string relaxed = "atom.relaxed.gpu.exch r0, x, 1";
  CHECK(orders({"ld.relaxed.gpu r1, y", relaxed}, "forall (x > 0 /\\ P1:r0 < 9)") > 1);
  CHECK(orders({"ld.relaxed.gpu r2, y", relaxed, "ld.relaxed.gpu r1, x"},
               "forall (x > 0 /\\ P1:r1 < 9)") >= 6);
  CHECK(orders({"ld.relaxed.gpu r1, y", relaxed, "fence.sc.gpu"}, "forall (x > 0)") >= 6);
  // Two locations, in both directions: the last ones of both do not go together freely.
  CHECK(orders({"atom.relaxed.gpu.exch r0, x, 1", "atom.relaxed.gpu.exch r1, y, 1"},
               "forall (x > 0 /\\ y > 0)") >= 6);
}

TEST_CASE("threads that meet at one location alone end as the search has them end") {
  const std::vector<std::vector<std::string>> programs = {
      {"atom.relaxed.gpu.add r0, x, 1", "atom.acq_rel.gpu.exch r1, x, 7"},
      {"ld.relaxed.gpu r0, x", "st.relaxed.gpu x, 5", "atom.acquire.gpu.cas r1, x, 5, 9"},
      {"atom.relaxed.gpu.cas r0, x, 0, 1", "beq r0, 0, OUT", "st.release.gpu x, 0",
       "OUT:", "atom.relaxed.gpu.max r1, x, 3"},
      {"ld.acquire.gpu r0, x", "add r0, r0, 3", "atom.relaxed.gpu.max r1, x, r0",
       "fence.acq_rel.gpu", "ld.relaxed.gpu r1, x"},
  };
  for (const auto& rows : programs) {
    const litmus::Test test = of_each(
        rows, 2, "exists (x == 7 /\\ P0:r0 == 0 /\\ P0:r1 == 0 /\\ P1:r0 == 0 /\\ P1:r1 == 0)");
    INFO(rows.front());
    const testing::Searched apart = search_all(test), run = search_all(test, true);
    CHECK(apart.result.events == 0);  // they took no part in the runs
    CHECK(run.result.events > 0);
    std::set<litmus::State> ends, seen;
    for (const auto& [state, n] : apart.states) ends.insert(state);
    for (const auto& [state, n] : run.states) seen.insert(state);
    CHECK(seen.size() > 1);
    CHECK(ends == seen);
    CHECK(testing::difference(test) == "");
  }
}

TEST_CASE("threads that others meet, or whose scopes are too narrow, take part in the runs") {
  const std::string four = "atom.relaxed.cta.add r0, x, 1", wide = "atom.relaxed.gpu.add r0, x, 1";
  const auto runs = [](const litmus::Test& test) { return search_all(test).result.events > 0; };
  CHECK(runs(of_each({four}, 4, "exists (x == 1 /\\ P0:r0 == 0)")));
  CHECK(runs(of_each({wide, "ld.weak r1, y"}, 4, "exists (x == 1)")));
  CHECK(runs(of_each({"ld.weak r1, x", wide}, 4, "exists (x == 4)")));
  CHECK(runs(of_each({wide, "fence.sc.gpu"}, 4, "exists (x == 4)")));
  CHECK_FALSE(runs(of_each({wide}, 4, "exists (x == 4)")));
  // Not morally strong: an addition is lost.
  const litmus::Test lost = of_each({four}, 4, "exists (x == 1)");
  CHECK(litmus::judge(lost, search_all(lost).states).ok);
}

TEST_CASE("a fence may come before any number of another thread's") {
  // P1 goes first, as it may whatever P0 does in the end.
  for (const int more : {0, 1, 11, 12, 20}) {
    std::string rows =
        " P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;\n st.relaxed.gpu x, 1 | st.relaxed.gpu y, 1 ;\n"
        " fence.sc.gpu | fence.sc.gpu ;\n ld.relaxed.gpu r0, y | ld.relaxed.gpu r1, x ;\n";
    for (int i = 0; i < more; ++i) rows += " fence.sc.gpu | ;\n";
    const litmus::Test test = litmus::parse(
        "PTX t\n{ x=0; y=0; }\n" + rows + "exists (P0:r0 == 1 /\\ P1:r1 == 0)\n", "t");
    machine::Policy policy = testing::letter();
    policy.load_buffering = machine::LoadBuffering::off;
    const testing::Searched s = testing::search(test, policy);
    CAPTURE(more);
    CHECK(s.states.size() == 3);
    CHECK(litmus::judge(test, s.states, false).ok);
    CHECK(s.result.left_out.empty());
  }
}

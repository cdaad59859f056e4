#include "ringfence/subject.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "ringfence/litmus.hpp"

namespace ringfence {
namespace {

Protocol small(const std::map<std::string, std::string>& switches = {}) {
  return {.ranks = 2, .tokens = 2, .hidden = 16, .inner = 4, .blocks = 1, .switches = switches};
}

TEST_CASE("a relaxed end is found, mended, confirmed over processes, and replays from its text") {
  const Subject broken = Subject::protocol(small({{"end.put", "relaxed"}}));
  const Result r = broken.fuzz({.schedules = 500});
  REQUIRE(r.verdict == Verdict::finding);
  const Finding& f = *r.finding();
  CHECK(f.kind == "data-race");
  CHECK(f.mode == Boundary::coherent);
  CHECK(f.confirmed);
  REQUIRE_FALSE(f.remedies.empty());
  CHECK(f.remedies.front() == "end.put=release (it is relaxed)");
  const ReplayResult again = broken.replay(f.trace);
  CHECK(again.reproduced);
  CHECK(again.kind == f.kind);
  CHECK(again.remedies == f.remedies);
  // As one word, too; the two say which finding it is.
  CHECK(f.token.starts_with("rf1,tokenweave,"));
  CHECK(broken.replay(f.token).reproduced);
  CHECK(replay_file(f.token).reproduced);
  CHECK(f.id.starts_with("data-race-"));
  CHECK(f.id.size() == std::string("data-race-0123456789abcdef").size());
  CHECK_FALSE(f.cause.empty());
  CHECK_FALSE(f.fix.empty());
  // Of another subject it is no trace.
  CHECK_THROWS_AS(Subject::protocol({.name = "pypto"}).replay(f.trace), Error);
}

TEST_CASE("the same search gives the same over processes and in this process") {
  const Subject broken = Subject::protocol(small({{"end.put", "relaxed"}}));
  std::string traces[2];
  std::uint64_t executions[2];
  int i = 0;
  for (const Executor e : {Executor::processes, Executor::in_process}) {
    const Result r = broken.fuzz({.schedules = 200, .executor = e, .shrink = false});
    REQUIRE(r.finding() != nullptr);
    const std::string& t = r.finding()->trace;
    traces[i] = t.substr(t.find('\n'));  // the first line says which executor it was
    executions[i++] = r.modes.front().executions;
  }
  CHECK(traces[0] == traces[1]);
  CHECK(executions[0] == executions[1]);
}

TEST_CASE("check and relax: the least orders of the barrier in mode coherent") {
  const Subject right = Subject::protocol(small());
  const Result r = right.check();
  CHECK(r.verdict == Verdict::pass);
  CHECK(r.modes.front().explored == 1);
  const auto tables = right.relax();
  REQUIRE(tables.size() == 1);
  CHECK(tables.front().verdict == Verdict::pass);
  bool put = false;
  for (const RelaxedSite& s : tables.front().sites) {
    if (s.site != "end.put") continue;
    put = true;
    CHECK(s.present == "release");
    CHECK(s.alone == "release");  // the design's: release/relaxed at the end
    CHECK(s.why.find("data-race") != std::string::npos);
  }
  CHECK(put);
  CHECK(Subject::protocol(small({{"end.put", "relaxed"}})).relax().front().verdict ==
        Verdict::finding);
}

TEST_CASE("an analysis that is asked to stop ends, and the next one is not touched by it") {
  const Subject right = Subject::protocol(small());
  std::stop_source stop;
  std::uint64_t calls = 0;
  const Options endless{.schedules = 0,
                        .seconds = 60,
                        .progress =
                            [&](const Progress& p) {
                              ++calls;
                              CHECK(p.mode == Boundary::coherent);
                              stop.request_stop();
                            },
                        .stop = stop.get_token()};
  const auto begin = std::chrono::steady_clock::now();
  try {
    right.fuzz(endless);
    FAIL("it was not interrupted");
  } catch (const Error& e) {
    CHECK(e.kind() == Error::Kind::interrupted);
  }
  CHECK(calls > 0);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  CHECK(right.fuzz({.schedules = 10}).verdict == Verdict::pass);
}

TEST_CASE("what progress throws ends the analysis and comes out of it, and the next one is whole") {
  const Subject right = Subject::protocol(small());
  for (const unsigned jobs : {1u, 2u}) {
    CAPTURE(jobs);
    const auto begin = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH_AS(
        right.fuzz({.schedules = 0,
                    .seconds = 60,
                    .jobs = jobs,
                    .progress = [](const Progress&) { throw std::logic_error("mine"); }}),
        "mine", std::logic_error);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
    const Result next = right.fuzz({.schedules = 10});
    CHECK(next.verdict == Verdict::pass);
    CHECK(next.modes.front().executions == 11);
  }
}

TEST_CASE(
    "an analysis that waits for another one may be stopped, and one within another is refused") {
  const Subject right = Subject::protocol(small());
  std::stop_source stop_first, stop_second;
  std::string inner;
  Error::Kind second = Error::Kind::internal;
  bool first_ran = false;
  {
    std::atomic<bool> begun = false;
    const std::jthread first([&] {
      try {
        right.fuzz({.schedules = 0,
                    .seconds = 60,
                    .progress =
                        [&](const Progress&) {
                          if (begun.exchange(true)) return;
                          try {
                            right.check();
                          } catch (const Error& e) {
                            inner = e.what();
                          }
                        },
                    .stop = stop_first.get_token()});
      } catch (const Error& e) {
        first_ran = e.kind() == Error::Kind::interrupted;
      }
    });
    while (!begun) std::this_thread::yield();
    const std::jthread stopper([&] { stop_second.request_stop(); });
    try {
      right.fuzz({.schedules = 10, .stop = stop_second.get_token()});
    } catch (const Error& e) {
      second = e.kind();
    }
    stop_first.request_stop();
  }
  CHECK(second == Error::Kind::interrupted);
  CHECK(first_ran);  // nobody else ended it
  CHECK(inner == "an analysis within another one: expected that one to end first");
  CHECK(right.fuzz({.schedules = 10}).verdict == Verdict::pass);
}

TEST_CASE("every analysis ends where it is asked to before it begins") {
  const Subject right = Subject::protocol(small());
  const std::string trace =
      Subject::protocol(small({{"end.put", "relaxed"}})).fuzz({.remedies = false}).finding()->trace;
  std::stop_source stop;
  stop.request_stop();
  const Options o{.stop = stop.get_token()};
  const std::vector<std::function<void()>> analyses{
      [&] { right.run(o); },
      [&] { right.fuzz(o); },
      [&] { right.check(o); },
      [&] { right.relax(o); },
      [&] { right.replay(trace, o); },
      [&] {
        explore_litmus("PTX x\n{x=0;}\n P0@cta 0,gpu 0 ;\n st.weak x, 1 ;\nexists (x == 1)\n", "x",
                       o);
      }};
  for (std::size_t i = 0; i < analyses.size(); ++i) {
    CAPTURE(i);
    try {
      analyses[i]();
      FAIL("it came to an end");
    } catch (const Error& e) {
      CHECK(e.kind() == Error::Kind::interrupted);
    }
  }
  CHECK(right.run().verdict == Verdict::pass);
}

TEST_CASE("a protocol's inputs: from a file, whose sizes count, and generated by a seed") {
  const Protocol of_file{.ranks = 2,
                         .tokens = 3,  // not counted, as it would not divide by the ranks
                         .blocks = 1,
                         .input = "tests/inputs/stories260k-layer0.safetensors"};
  const Result r = Subject::protocol(of_file).run({.memories = true});
  CHECK(r.verdict == Verdict::pass);
  REQUIRE(r.memories.contains("out"));
  CHECK(r.memories.at("out").dtype == "bf16");
  Protocol without_file = of_file;
  without_file.input = "tests/inputs/none.safetensors";
  CHECK_THROWS_AS(Subject::protocol(without_file), Error);
  without_file.input.clear();
  without_file.input_map = "gamma=g";
  CHECK_THROWS_AS(Subject::protocol(without_file), Error);

  const auto out_of = [](std::uint64_t seed) {
    Protocol p = small();
    p.payload = "normal";
    p.payload_seed = seed;
    return Subject::protocol(p).run({.memories = true}).memories.at("out").bytes;
  };
  CHECK(out_of(1) == out_of(1));
  CHECK(out_of(1) != out_of(2));
  CHECK(Subject::protocol(small()).run().memories.empty());  // nobody asked
}

TEST_CASE("a kill that others wait for in vain is a finding where it is to be survived") {
  const Subject right = Subject::protocol(small());
  CHECK(right.fuzz({.schedules = 200, .faults = "kill"}).verdict == Verdict::pass);
  const Result r = right.fuzz({.schedules = 200, .faults = "kill", .survive = true});
  REQUIRE(r.finding() != nullptr);
  CHECK(r.finding()->kind == "deadlock");
}

TEST_CASE("analyses of several threads follow one another") {
  Verdict verdicts[2] = {Verdict::unknown, Verdict::unknown};
  {
    std::jthread other(
        [&] { verdicts[0] = Subject::protocol(small()).fuzz({.schedules = 50}).verdict; });
    verdicts[1] = Subject::protocol(small({{"slot", "wrong"}})).fuzz({.schedules = 50}).verdict;
  }
  CHECK(verdicts[0] == Verdict::pass);
  CHECK(verdicts[1] == Verdict::finding);
}

TEST_CASE("what cannot be used is one line, as the command line says it") {
  const auto line_of = [](auto f) {
    try {
      f();
    } catch (const Error& e) {
      CHECK(e.kind() == Error::Kind::input);
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  CHECK(line_of([] { Subject::protocol({.tokens = 3}); }) ==
        "--tokens 3 does not divide by --ranks 4: pad to 4");
  CHECK(line_of([] { Subject::case_file("none.toml"); }) ==
        "none.toml: cannot be read: No such file or directory");
  CHECK(line_of([] {
          Subject::protocol(small()).fuzz({.ignore = {"nonsense"}});
        }).find("--ignore nonsense: unknown kind") == 0);
  CHECK(line_of([] { Subject::protocol(small()).with({{"x", "y"}}); }).find("--set x=y") == 0);
  CHECK(line_of([] { replay_file("none.trace.jsonl"); }).find("none.trace.jsonl") == 0);
  const auto of = [&](const Options& o) {
    return line_of([&] { Subject::protocol(small()).fuzz(o); });
  };
  CHECK(of({.strategy = "mutant"}) ==
        "Options: strategy mutant: expected portfolio, random, pct, pos or surw");
  CHECK(of({.seconds = -1}) == "Options: seconds -1: expected a number of at least 0");
  CHECK(of({.depth = 0}) == "Options: depth 0: expected 1 to 100");
  CHECK(of({.stale = 7}) == "Options: stale 7: expected 0 to 1");
  CHECK(of({.survive = true}) == "Options: survive: expected faults that are to be survived");
  CHECK(of({.registers = 64}) == "--registers: applies only to compiled kernels; expected --case");
  CHECK(of({.policies = {{"summation", "exact"}}}) ==
        "policies: summation is a setting of the subject: Protocol::summation, Case::summation");
}

TEST_CASE("litmus: a release and an acquire forbid the old value, two relaxed ones do not") {
  const auto mp = [](const std::string& write, const std::string& read) {
    return "PTX MP\n{\nx=0; y=0;\nP0:r0=0; P1:r0=0; P1:r1=0;\n}\n"
           " P0@cta 0,gpu 0 | P1@cta 0,gpu 1 ;\n"
           " st.weak x, 1 | ld." +
           read +
           ".sys r0, y ;\n"
           " st." +
           write +
           ".sys y, 1 | ld.weak r1, x ;\n"
           "exists (P1:r0 == 1 /\\ P1:r1 == 0)\n";
  };
  const LitmusResult right = explore_litmus(mp("release", "acquire"));
  CHECK(right.complete);
  CHECK_FALSE(right.holds);
  CHECK(right.observation == "Never");
  const LitmusResult weak = explore_litmus(mp("relaxed", "relaxed"));
  CHECK(weak.holds);
  CHECK(weak.race);
  CHECK(weak.observation == "Sometimes");
  CHECK_THROWS_AS(explore_litmus("PTX x\n{", "x.litmus"), Error);
}

}  // namespace
}  // namespace ringfence

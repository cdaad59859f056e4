#include "ringfence/subject.hpp"

#include <doctest/doctest.h>

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

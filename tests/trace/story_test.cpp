#include "emulator/trace/story.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>

#include "emulator/trace/cause.hpp"
#include "emulator/trace/story_steps.hpp"
#include "emulator/trace/verdict.hpp"
#include "tests/trace/samples.hpp"

namespace ringfence::trace {
namespace {

using machine::Event;

// Region 0 and 1: the buffers of both ranks; 2 and 3: their pads.
class NamesOnly : public schedule::Program {
 public:
  std::uint16_t ranks() const override { return 2; }
  std::uint64_t shared_bytes() const override { return 0; }
  void set_up(machine::Machine&, std::pmr::memory_resource*) override {}
  void before_run(machine::Machine&) override {}
  void host(schedule::Agent&, std::uint16_t) override {}
  void after_run(machine::Machine&) override {}
  std::string site_name(std::uint16_t site) const override {
    return "line " + std::to_string(site);
  }
  std::string region_name(machine::RegionId region) const override {
    return "buffer of rank " + std::to_string(region);
  }
  schedule::SlotName slot_name(machine::Address at) const override {
    if (at.region < 2) return {};
    const std::string slot = std::to_string(at.offset / 4);
    return {"pad of rank " + std::to_string(at.region - 2) + ", slot " + slot, "r" + slot + ".b0"};
  }
};

// A run of message passing from rank 0 to rank 1 with a relaxed flag, as its steps are told.
struct Run {
  schedule::Outcome outcome;
  std::uint32_t step = 0;

  Event& add(Event::Kind kind, const std::string& agent, machine::Order order,
             machine::RegionId region, std::uint64_t value) {
    Event e;
    e.kind = kind;
    e.label = label(agent);
    e.step = ++step;
    e.site = static_cast<std::uint16_t>(step);
    e.order = order;
    e.scope = machine::Scope::sys;
    e.address = {region, 0};
    e.bytes = 4;
    e.value = value;
    outcome.history.push_back(e);
    outcome.steps = step;
    return outcome.history.back();
  }
  static machine::AccessInfo access(const Event& e) {
    machine::AccessInfo a;
    a.kind = e.kind == Event::Kind::read ? machine::AccessKind::read : machine::AccessKind::write;
    a.order = e.order;
    a.scope = e.scope;
    a.label = e.label;
    a.step = e.step;
    a.site = e.site;
    a.region = e.address.region;
    a.offset = e.address.offset;
    a.bytes = e.bytes;
    return a;
  }
};

Run message_passing() {
  using enum machine::Order;
  using Kind = Event::Kind;
  Run r;
  r.add(Kind::write, "r0.c0.product.b0.t0", weak, 0, 7);  // 1: the first access
  for (int i = 0; i < 30; ++i) r.add(Kind::write, "r0.c0.b0.t0", weak, 1, 1);
  r.add(Kind::write, "r0.c0.b0.t0", relaxed, 3, 1);               // 32: the flag
  Event& poll = r.add(Kind::read, "r1.c0.b0.t0", relaxed, 3, 1);  // 33
  poll.from_step = 32;
  poll.from_label = label("r0.c0.b0.t0");
  for (int i = 0; i < 30; ++i) r.add(Kind::read, "r1.c0.b0.t0", weak, 1, 1);
  r.add(Kind::read, "r1.c0.b0.t0", weak, 0, 7);  // 64: the second
  machine::Finding f;
  f.kind = machine::FindingKind::data_race;
  f.missing = machine::Missing::strength;
  f.has_first = f.has_second = true;
  f.first = Run::access(r.outcome.history.front());
  f.second = Run::access(r.outcome.history.back());
  r.outcome.findings.push_back(f);
  r.outcome.end = schedule::RunEnd::finding;
  return r;
}

std::vector<std::uint32_t> steps_of(const Run& r, std::size_t limit) {
  std::vector<std::uint32_t> steps;
  for (std::size_t i : steps_that_matter(r.outcome, r.outcome.findings.front(), limit)) {
    steps.push_back(r.outcome.history[i].step);
  }
  return steps;
}

std::string tell(const Run& r) {
  const NamesOnly program;
  Trace t;
  programs::Config config;
  config.ranks = 2;
  t.header.config = config;
  t.header.policy.boundary = machine::Boundary::strict;
  t.decisions = r.outcome.decisions;
  t.verdict = make_verdict(r.outcome, program);
  return story(t, r.outcome, program, {.replay = "ringfence replay x.trace.jsonl"});
}

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_CASE("of 64 steps of a race, those that lead from the first access to the second are told") {
  // The launch's last step, from which the protocol's launch is entered, is the access itself.
  CHECK(steps_of(message_passing(), 14) == std::vector<std::uint32_t>{1, 2, 32, 33, 64});
}

TEST_CASE("the two accesses are told even if nothing else fits") {
  CHECK(steps_of(message_passing(), 2) == std::vector<std::uint32_t>{1, 64});
}

TEST_CASE("where nothing leads from one access to the other, their strong steps are told") {
  Run r = message_passing();
  r.outcome.history[32].from_step = 0;  // the poll saw the initial value
  CHECK(steps_of(r, 14) == std::vector<std::uint32_t>{1, 33, 64});
}

TEST_CASE("a race's story names both accesses, what is missing, and how to run it again") {
  const std::string text = tell(message_passing());
  CHECK(text.find(
            "data-race in boundary mode strict: rank 0's product writes buffer of rank 0, byte 0, "
            "and rank 1, block 0, thread 0 reads it: no synchronisation orders the two\n") == 0);
  CHECK(text.find("load-buffering=off") != std::string::npos);
  CHECK(text.find("first  step     1  r0.c0.product.b0.t0") != std::string::npos);
  CHECK(text.find("second step    64  r1.c0.b0.t0") != std::string::npos);
  CHECK(text.find("missing between them: a chain of strong accesses") != std::string::npos);
  CHECK(text.find("step 32 (line 32) is relaxed.sys: no release") != std::string::npos);
  CHECK(text.find("step 33 (line 33) is relaxed.sys: no acquire") != std::string::npos);
  CHECK(text.find("(of step 32)") != std::string::npos);
  CHECK(text.rfind("replay: ringfence replay x.trace.jsonl\n") == text.size() - 39);
  CHECK(lines(text) <= 28);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("short names of agents in a story are explained below") {
  const std::string text = tell(message_passing());
  const std::size_t at =
      text.find("\nAgents (r: rank, c: call, g: launch, b: block, t: thread):\n");
  REQUIRE(at != std::string::npos);
  CHECK(text.find("  r1.c0.b0.t0  rank 1, call 0, block 0, thread 0\n", at) != std::string::npos);
  // It makes a step that matters, although the finding is not its own.
  CHECK(text.find("  r0.c0.b0.t0  rank 0, call 0, block 0, thread 0\n", at) != std::string::npos);
}

TEST_CASE("what takes no step of the run has no step in its story") {
  Run r = message_passing();
  r.outcome.findings.front().first.step = 0;
  CHECK(tell(r).find("first  step     -  r0.c0.product.b0.t0") != std::string::npos);
}

TEST_CASE("a site's line is the source's, and the line that calls it is told apart") {
  CHECK(line_of("a.ptx:5: ret;") == "a.ptx:5");
  CHECK(caller_of("a.ptx:5: ret;").empty());
  CHECK(line_of("a.ptx:5 (a.cu:3): ret;") == "a.cu:3");
  CHECK(line_of("a.ptx:5 (a.cu:3, in h.cuh:9): ret;") == "a.cu:3");
  CHECK(caller_of("a.ptx:5 (a.cu:3, in h.cuh:9): ret;").empty());
  const std::string both = "a.ptx:5 (a.cu:3, in h.cuh:9, called at a.cu:7): ret;";
  CHECK(line_of(both) == "a.cu:3");
  CHECK(caller_of(both) == "a.cu:7");
  CHECK(caller_of("a.ptx:5 (a.cu:3, called at a.cu:7): ret;") == "a.cu:7");
}

TEST_CASE("an old value is marked in the story") {
  Run r = message_passing();
  r.outcome.history.back().stale = true;
  CHECK(tell(r).find("OLD: a newer one was there") != std::string::npos);
}

TEST_CASE("a deadlock's story is a table of waits, with the cycle marked") {
  Run r;
  r.add(Event::Kind::write, "r0.c0.b0.t1", machine::Order::relaxed, 3, 1);
  r.outcome.end = schedule::RunEnd::deadlock;
  machine::Finding deadlock;
  deadlock.kind = machine::FindingKind::deadlock;
  r.outcome.findings.push_back(deadlock);
  const auto stuck = [](const std::string& agent, machine::Address at) {
    schedule::StuckAgent s;
    s.label = label(agent);
    s.status = schedule::AgentStatus::awaiting;
    s.await.at = at;
    s.await.wanted = {machine::Compare::eq, 1};
    return s;
  };
  // Rank 0 waits for rank 1, rank 1 for rank 0; a third wait is for one of them.
  r.outcome.stuck = {stuck("r0.c0.b0.t1", {2, 4}), stuck("r1.c0.b0.t0", {3, 0}),
                     stuck("r1.c0.b2.t0", {3, 0})};
  schedule::StuckAgent host;
  host.label = label("r0.host");
  host.status = schedule::AgentStatus::joining;
  r.outcome.stuck.push_back(host);
  const std::string text = tell(r);
  CHECK(text.find("deadlock in boundary mode strict") == 0);
  CHECK(text.find("3 agents cannot go on") != std::string::npos);
  CHECK(text.find("o  r0.c0.b0.t1  pad of rank 0, slot 1  == 1   0      r1.b0") !=
        std::string::npos);
  CHECK(text.find("waits for pad of rank 1, slot 0") != std::string::npos);
  CHECK(text.find("   r1.c0.b2.t0") != std::string::npos);
  CHECK(text.find("o  r1.c0.b2.t0") == std::string::npos);
  CHECK(text.find("r0.host") == std::string::npos);
  CHECK(text.find("on a cycle of waits") != std::string::npos);
}

TEST_CASE("stories of a thousand stuck agents still fit on a screen") {
  Run r;
  r.outcome.end = schedule::RunEnd::deadlock;
  for (int i = 0; i < 1000; ++i) {
    schedule::StuckAgent s;
    s.label = label("r0.c0.b0.t" + std::to_string(i));
    s.status = i % 2 == 0 ? schedule::AgentStatus::awaiting : schedule::AgentStatus::at_barrier;
    s.await.at = {2, 4};
    r.outcome.stuck.push_back(s);
  }
  const std::string text = tell(r);
  CHECK(lines(text) <= 28);
  CHECK(text.find("and 992 more") != std::string::npos);
}

TEST_CASE("a lost rank is no finding, and is told with its last step and how it ended") {
  Run r;
  r.outcome.end = schedule::RunEnd::finding;
  schedule::LostRank lost;
  lost.rank = 1;
  lost.last_step = 12;
  lost.last_agent = "r1.c0.b0.t3";
  lost.wait_status = 9;  // as waitpid gives a death by SIGKILL
  r.outcome.lost.push_back(lost);
  const std::string text = tell(r);
  CHECK(text.find("no finding") == 0);
  CHECK(text.find("rank 1 killed by signal 9 (Killed) after step 12 (r1.c0.b0.t3)") !=
        std::string::npos);
}

TEST_CASE("every kind of finding has a sentence of its own") {
  const NamesOnly program;
  std::vector<std::string> told;
  for (int i = 0; i < machine::kFindingKinds; ++i) {
    schedule::Outcome o;
    o.end = schedule::RunEnd::finding;
    machine::Finding f;
    f.kind = static_cast<machine::FindingKind>(i);
    f.has_second = true;
    f.second.label = label("r1.c0.b0.t2");
    f.second.region = 2;
    o.findings.push_back(f);
    const std::string message = make_verdict(o, program).message;
    CHECK_FALSE(message.empty());
    CHECK(std::find(told.begin(), told.end(), message) == told.end());
    told.push_back(message);
  }
}

TEST_CASE("a deadlock is told with the place that is polled, or with the barrier") {
  schedule::Outcome o;
  o.end = schedule::RunEnd::deadlock;
  machine::Finding f;
  f.kind = machine::FindingKind::deadlock;
  f.has_second = true;
  f.second.label = label("r1.c0.b0.t2");
  f.second.region = 2;
  o.findings.push_back(f);
  CHECK(make_verdict(o, NamesOnly()).message ==
        "rank 1, block 0, thread 2 waits for ever at a barrier of its block");
  o.findings[0].second.bytes = 4;
  CHECK(make_verdict(o, NamesOnly()).message.find("thread 2 waits for ever for ") !=
        std::string::npos);
}

TEST_CASE("a scope that is too narrow is told with its side") {
  machine::Finding f;
  f.first.label = label("r0.c0.b0.t1");
  f.first.order = machine::Order::release;
  f.first.scope = machine::Scope::gpu;
  f.second.label = label("r1.c0.b0.t0");
  f.missing = machine::Missing::first_scope;
  CHECK(missing_text(f) ==
        "rank 0, block 0, thread 1 has scope .gpu, which does not reach rank 1, block 0, thread 0");
  f.second.scope = machine::Scope::cta;
  f.missing = machine::Missing::second_scope;
  CHECK(missing_text(f).find("rank 1, block 0, thread 0 has scope .cta") == 0);
}

TEST_CASE("step by step tells every step on a line") {
  const Run r = message_passing();
  CHECK(lines(step_by_step(r.outcome, NamesOnly())) == 65);
}

}  // namespace
}  // namespace ringfence::trace

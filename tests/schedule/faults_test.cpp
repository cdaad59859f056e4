// What faults do to a run, and what a protocol keeps or breaks under them.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/faults.hpp"
#include "emulator/schedule/inline_executor.hpp"
#include "tests/support/fault_programs.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using namespace ringfence::schedule;
using namespace ringfence::testing;

namespace {

// The ready agents in turn, and one fault: `answer` to the question number `at` of `kind`.
class OneFault final : public Strategy {
 public:
  OneFault(DecisionKind kind, std::uint32_t at, std::uint32_t answer)
      : kind_(kind), at_(at), answer_(answer) {}
  bool asked() const { return questions_ > at_; }
  std::uint32_t options() const { return options_; }

  void begin(std::uint32_t) override { questions_ = 0; }
  AgentId pick(const ReadyView& ready, AgentId current, bool, std::uint64_t,
               std::uint32_t) override {
    AgentId next = kNoAgent;
    for (std::uint32_t i = 0; i < ready.count(); ++i) {
      const AgentId id = ready.at(i);
      if (current != kNoAgent && id > current) next = std::min(next, id);
    }
    return next != kNoAgent ? next : ready.lowest();
  }
  std::uint32_t choose(DecisionKind kind, std::uint64_t, std::uint32_t,
                       std::uint32_t options) override {
    if (kind != kind_) return 0;
    options_ = options;
    return questions_++ == at_ ? answer_ : 0;
  }

 private:
  DecisionKind kind_;
  std::uint32_t at_, answer_, questions_ = 0, options_ = 0;
};

RunSpec with_faults(machine::Boundary boundary = machine::Boundary::strict) {
  RunSpec spec;
  spec.policy.boundary = boundary;
  for (FaultRate& rate : spec.strategy.faults.rates) rate.count = 1;
  return spec;
}

// Every run of `program` with that one fault, at each of its places.
std::vector<Outcome> at_every_place(Program& program, DecisionKind kind, std::uint32_t answer) {
  std::vector<Outcome> all;
  InlineExecutor executor(program);
  for (std::uint32_t at = 0;; ++at) {
    OneFault strategy(kind, at, answer);
    Outcome out = executor.run(with_faults(), strategy);
    if (!strategy.asked()) return all;
    if (!out.faults.empty()) all.push_back(std::move(out));
  }
}

std::vector<Outcome> at_every_point(Program& program, FaultKind kind, std::uint32_t span = 0) {
  return at_every_place(program, DecisionKind::fault, encode(StepFault{kind, span}));
}

int failing(const std::vector<Outcome>& runs, machine::FindingKind kind) {
  return static_cast<int>(std::count_if(runs.begin(), runs.end(), [&](const Outcome& out) {
    const auto f = failure(out);
    return f && f->kind == kind;
  }));
}

int failing(const std::vector<Outcome>& runs) {
  return static_cast<int>(std::count_if(
      runs.begin(), runs.end(), [](const Outcome& out) { return failure(out).has_value(); }));
}

int stopped(const std::vector<Outcome>& runs) {
  return static_cast<int>(std::count_if(runs.begin(), runs.end(), stopped_by_fault));
}

}  // namespace

TEST_CASE("a barrier that waits for its signals stands any pause, delay and late signal") {
  MiniReduce program({.ranks = 2, .blocks = 1, .threads = 2, .calls = 2});
  for (const std::uint32_t span : {1u, 9u, 100000u}) {
    for (const auto kind : {FaultKind::pause, FaultKind::delay}) {
      const auto runs = at_every_point(program, kind, span);
      CHECK(runs.size() > 50);
      for (const Outcome& out : runs) {
        CHECK(out.end == RunEnd::complete);
        CHECK(out.findings.empty());
        CHECK(out.faults.front().kind == kind);
      }
    }
    const auto late = at_every_place(program, DecisionKind::late, span);
    CHECK(late.size() >= 2 * 2 * 2 * 2 * 2);  // calls, barriers, ranks, puts, waits
    for (const Outcome& out : late) CHECK(out.end == RunEnd::complete);
    CHECK(failing(late) == 0);
  }
}

TEST_CASE("while a rank is paused nobody of it steps, unless nobody else can") {
  HostProgram program(2, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&p, rank](Agent& a) {
               for (std::uint32_t i = 1; i <= 5; ++i) {
                 store32(a, p.slot(rank, 0), i, Order::relaxed);
               }
             }});
  });
  InlineExecutor executor(program);
  OneFault strategy(DecisionKind::fault, 6, encode(StepFault{FaultKind::pause, 1000000}));
  RunSpec spec = with_faults();
  spec.history = true;
  const Outcome out = executor.run(spec, strategy);
  REQUIRE(out.faults.size() == 1);
  CHECK(out.end == RunEnd::complete);
  std::vector<std::uint16_t> ranks;
  for (const machine::Event& e : out.history) {
    if (e.kind == machine::Event::Kind::write && e.step > out.faults[0].step) {
      ranks.push_back(unpack(e.label).rank);
    }
  }
  // All of the other rank's stores come first.
  REQUIRE(ranks.size() > 4);
  CHECK(std::is_sorted(ranks.begin(), ranks.end(), [&](std::uint16_t a, std::uint16_t b) {
    return a != out.faults[0].rank && b == out.faults[0].rank;
  }));
  CHECK(ranks.back() == out.faults[0].rank);
}

TEST_CASE("killed at any step, the others complete right or wait, named, for the killed rank") {
  MiniReduce program({.ranks = 3, .blocks = 1, .threads = 3});
  const auto runs = at_every_point(program, FaultKind::kill);
  CHECK(failing(runs) == 0);
  CHECK(stopped(runs) > 0);
  CHECK(stopped(runs) < static_cast<int>(runs.size()));  // late enough, it is not missed
  for (const Outcome& out : runs) {
    REQUIRE(out.faults.size() == 1);
    if (out.end == RunEnd::complete) continue;
    REQUIRE(out.end == RunEnd::deadlock);
    bool waits_for_it = false;
    for (const StuckAgent& s : out.stuck) {
      CHECK(unpack(s.label).rank != out.faults[0].rank);
      if (s.status != AgentStatus::awaiting) continue;
      // Slot of a pad: by sender; or the killed rank's own pad, which it no longer clears.
      const bool own = s.await.at.region == program.pad(out.faults[0].rank);
      waits_for_it |= own || s.await.at.offset / 4 % 3 == out.faults[0].rank;
    }
    CHECK(waits_for_it);
  }
}

TEST_CASE("a hang after a kill is a finding where the run has to survive it") {
  MiniReduce program({.ranks = 2, .blocks = 1, .threads = 2});
  InlineExecutor executor(program);
  OneFault strategy(DecisionKind::fault, 8, encode(StepFault{FaultKind::kill}));
  RunSpec spec = with_faults();
  const Outcome kept = executor.run(spec, strategy);
  REQUIRE(kept.end == RunEnd::deadlock);
  CHECK(stopped_by_fault(kept));
  CHECK(!failure(kept));
  CHECK(!undecided(kept));
  spec.survive = true;
  const Outcome broken = executor.run(spec, strategy);
  CHECK(!stopped_by_fault(broken));
  REQUIRE(failure(broken));
  CHECK(failure(broken)->kind == machine::FindingKind::deadlock);
}

TEST_CASE("what a killed rank stored is seen, and the last rank is never killed") {
  HostProgram program(2, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&p, rank](Agent& a) {
               if (rank == 1) {
                 store32(a, p.slot(0, 0), 7, Order::release);
                 a.await(p.slot(1, 5), {.order = Order::acquire}, {machine::Compare::eq, 1});
               } else {
                 const std::uint64_t seen = a.await_value(p.slot(0, 0), {.order = Order::acquire},
                                                          {machine::Compare::ne, 0});
                 CHECK(seen == 7);
               }
             }});
  });
  InlineExecutor executor(program);
  int after_store = 0;
  for (const Outcome& out : at_every_point(program, FaultKind::kill)) {
    if (out.faults[0].rank == 1 && out.faults[0].step == 1) {
      ++after_store;
      CHECK(out.end == RunEnd::complete);
    }
  }
  CHECK(after_store > 0);
  RunSpec spec = with_faults();
  spec.strategy.kind = StrategySpec::Kind::random;
  spec.strategy.faults = parse_faults("kill=0.5");
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    spec.strategy.seed = seed;
    CHECK(executor.run(spec).faults.size() <= 1);
  }
}

TEST_CASE("who gives up waiting and goes on is silently wrong under a fault, and is caught") {
  const std::uint32_t long_span = 100000;
  for (const bool goes_on : {false, true}) {
    GivesUp program(goes_on);
    InlineExecutor executor(program);
    OneFault none(DecisionKind::fault, 0, 0);
    CHECK(!failure(executor.run(with_faults(), none)));  // right without a fault
    const auto killed = at_every_point(program, FaultKind::kill);
    const auto paused = at_every_point(program, FaultKind::pause, long_span);
    const auto delayed = at_every_point(program, FaultKind::delay, long_span);
    const auto late = at_every_place(program, DecisionKind::late, long_span);
    for (const auto* runs : {&killed, &paused, &delayed, &late}) {
      CHECK(!runs->empty());
      CHECK((failing(*runs, machine::FindingKind::numeric_mismatch) > 0) == goes_on);
      CHECK((failing(*runs) > 0) == goes_on);
    }
  }
}

TEST_CASE("a counted arrival of a restarted rank counts twice: caught; a slot a rank stands it") {
  for (const bool counted : {false, true}) {
    Arrivals program(3, counted);
    InlineExecutor executor(program);
    RunSpec spec;
    spec.policy.boundary = machine::Boundary::strict;
    int wrong = 0, restarted = 0;
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
      spec.strategy = {.kind = StrategySpec::Kind::random, .seed = seed};
      const Outcome plain = executor.run(spec);
      CHECK(!failure(plain));  // right without a restart
      spec.expected_points = plain.points;
      spec.strategy.faults = parse_faults("restart");
      const Outcome out = executor.run(spec);
      restarted += !out.faults.empty();
      const auto f = failure(out);
      wrong += f && f->kind == machine::FindingKind::numeric_mismatch;
      CHECK((!f || f->kind == machine::FindingKind::numeric_mismatch));
      CHECK(!stopped_by_fault(out));
    }
    CHECK(restarted > 20);
    CHECK((wrong > 0) == counted);
  }
}

TEST_CASE("a restarted rank begins the call that it was in, and its block barriers are empty") {
  std::vector<std::vector<int>> begun;  // by run: calls that rank 1's host began
  BlockBarrier barrier(2);
  HostProgram program(2, [&](HostProgram& p, Agent& host, std::uint16_t rank) {
    for (int call = host.first_call(); call < 3; ++call) {
      if (rank == 1) begun.back().push_back(call);
      if (rank == 0) {
        p.launch(host, rank, {[](Agent&) {}}, static_cast<std::uint16_t>(call));
        continue;
      }
      const auto body = [&](Agent& a) {
        store32(a, p.slot(1, 0), 1, Order::relaxed);
        a.sync(barrier);
      };
      p.launch(host, rank, {body, body}, static_cast<std::uint16_t>(call));
    }
  });
  InlineExecutor executor(program);
  std::set<std::vector<int>> seen;
  for (std::uint32_t at = 0;; ++at) {
    begun.emplace_back();
    OneFault strategy(DecisionKind::fault, at, encode(StepFault{FaultKind::restart}));
    const Outcome out = executor.run(with_faults(), strategy);
    if (!strategy.asked()) break;
    CHECK(out.end == RunEnd::complete);
    CHECK(out.findings.empty());
    if (!out.faults.empty() && out.faults[0].rank == 1) seen.insert(begun.back());
  }
  CHECK(seen == std::set<std::vector<int>>{{0, 0, 1, 2}, {0, 1, 1, 2}, {0, 1, 2, 2}});
}

TEST_CASE("what a rank did before its restart happens before what it does after, in every mode") {
  HostProgram program(2, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&p, rank](Agent& a) {
               store32(a, p.slot(rank, 0), 1, Order::weak);
               a.point();
               store32(a, p.slot(rank, 0), 2, Order::weak);
             }});
  });
  InlineExecutor executor(program);
  for (const auto mode :
       {machine::Boundary::strict, machine::Boundary::stream, machine::Boundary::coherent}) {
    for (std::uint32_t at = 0;; ++at) {
      OneFault strategy(DecisionKind::fault, at, encode(StepFault{FaultKind::restart}));
      const Outcome out = executor.run(with_faults(mode), strategy);
      if (!strategy.asked()) break;
      CHECK(out.end == RunEnd::complete);
      CHECK(out.findings.empty());
    }
  }
}

TEST_CASE("a pad that starts dirty is a finding that names the word, and the next run is clean") {
  MiniReduce program({.ranks = 2, .blocks = 1, .threads = 2});
  InlineExecutor executor(program);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    for (std::uint32_t answer = 1; answer < dirty_options(2); ++answer) {
      OneFault strategy(DecisionKind::dirty, rank, answer);
      const Outcome out = executor.run(with_faults(), strategy);
      CHECK(strategy.options() == dirty_options(2));  // a slot a rank
      REQUIRE(out.faults.size() == 1);
      CHECK(out.faults[0].at.region == program.pad(static_cast<std::uint16_t>(rank)));
      CHECK(out.faults[0].at.offset == decode_dirty(answer)->word * 4);
      CHECK(out.faults[0].holds == decode_dirty(answer)->holds);
      CHECK(failure(out).has_value());
      OneFault none(DecisionKind::dirty, 9, 0);
      CHECK(!failure(executor.run(with_faults(), none)));
    }
  }
}

TEST_CASE("a dirty word that the run leaves as it was is not held against the protocol") {
  for (const bool writes : {false, true}) {
    UnusedPad program(writes);
    InlineExecutor executor(program);
    OneFault strategy(DecisionKind::dirty, 0, *encode(DirtyWord{0, 2}));
    const Outcome out = executor.run(with_faults(), strategy);
    REQUIRE(out.faults.size() == 1);
    const auto f = failure(out);
    CHECK(f.has_value() == writes);
    if (f) CHECK(f->kind == machine::FindingKind::unrestored_signal);
  }
}

TEST_CASE(
    "a run with faults is replayed from its choices, and faults off leaves runs as they were") {
  MiniReduce program({.ranks = 3, .blocks = 2, .threads = 4, .calls = 2});
  InlineExecutor executor(program);
  std::set<FaultKind> met;
  for (const auto kind : {StrategySpec::Kind::random, StrategySpec::Kind::pct}) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      RunSpec spec;
      spec.policy.boundary = machine::Boundary::strict;
      spec.strategy = {.kind = kind, .seed = seed};
      const Outcome plain = executor.run(spec);
      spec.strategy.faults = parse_faults("kill,restart,pause=2,delay=2,late-signal=2,dirty-pad");
      spec.expected_points = plain.points;
      const Outcome out = executor.run(spec);
      for (const AppliedFault& f : out.faults) met.insert(f.kind);
      RunSpec again;
      again.policy = spec.policy;
      again.strategy.kind = StrategySpec::Kind::replay;
      again.decisions = out.decisions;
      const Outcome replayed = executor.run(again);
      for (const Decision& d : out.decisions) {
        // A trace writes no time for what lasts for good, so there is none.
        if (d.kind != DecisionKind::fault) continue;
        const auto fault = decode_step_fault(d.value);
        CHECK((fault->span > 0) == (fault->kind >= FaultKind::pause));
      }
      CHECK(same_run(out, replayed));
      CHECK(replayed.faults.size() == out.faults.size());
      RunSpec off;
      off.policy = spec.policy;
      off.strategy = {.kind = kind, .seed = seed};
      CHECK(executor.run(off).digest == plain.digest);
    }
  }
  CHECK(met.size() == kFaultKinds);
}

TEST_CASE("--faults: kinds with counts and chances, written back as they are read") {
  const FaultSpec s = parse_faults("kill,pause=3,late-signal=0.25");
  CHECK(s[FaultKind::kill].count == 1);
  CHECK(s[FaultKind::pause].count == 3);
  CHECK(s[FaultKind::late_signal].chance == 0.25);
  CHECK(!s[FaultKind::restart].any());
  CHECK(text(s) == "kill,pause=3,late-signal=0.25");
  CHECK(text(FaultSpec{}).empty());
  for (const char* bad : {"", "kil", "kill,", "kill,kill", "kill=", "kill=0", "kill=9", "kill=1.5",
                          "kill=-1", "kill=x", "kill=1e-3", "kill=nan", "kill=0.0"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_faults(bad), std::invalid_argument);
  }
}

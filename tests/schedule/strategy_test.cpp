// Strategies against a schedule of their own, and through runs of small programs.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <vector>

#include "emulator/schedule/inline_executor.hpp"
#include "emulator/schedule/strategies.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using namespace ringfence::schedule;
using namespace ringfence::testing;

namespace {

// Ready agents 0 .. n-1, all of them or a part.
class Ready final : public ReadyView {
 public:
  explicit Ready(std::vector<AgentId> ids) : ids_(std::move(ids)) {}
  std::uint32_t count() const override { return static_cast<std::uint32_t>(ids_.size()); }
  AgentId at(std::uint32_t i) const override { return ids_[i]; }
  AgentId lowest() const override { return *std::min_element(ids_.begin(), ids_.end()); }
  bool is_ready(AgentId id) const override {
    return std::find(ids_.begin(), ids_.end(), id) != ids_.end();
  }
  std::uint64_t label(AgentId id) const override { return 1000 + id; }
  AgentId find(std::uint64_t label) const override {
    return label >= 1000 ? static_cast<AgentId>(label - 1000) : kNoAgent;
  }

 private:
  std::vector<AgentId> ids_;
};

}  // namespace

TEST_CASE("the generator's draws are spread evenly over a range") {
  Random random(7);
  std::map<std::uint32_t, int> seen;
  for (int i = 0; i < 60000; ++i) ++seen[random.below(6)];
  CHECK(seen.size() == 6);
  for (const auto& [value, times] : seen) {
    CHECK(value < 6);
    // Five standard deviations of a binomial with n = 60000, p = 1/6.
    CHECK(std::abs(times - 10000) < 5 * 92);
  }
}

TEST_CASE("equal seeds give equal runs, and other seeds other ones") {
  MiniReduce program({.ranks = 2, .blocks = 1, .threads = 4});
  InlineExecutor executor(program);
  for (const auto kind : {StrategySpec::Kind::random, StrategySpec::Kind::pct}) {
    std::set<std::uint64_t> digests;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      RunSpec spec;
      spec.strategy = {.kind = kind, .seed = seed};
      const Outcome a = executor.run(spec), b = executor.run(spec);
      CHECK(a.digest == b.digest);
      CHECK(a.decisions == b.decisions);
      CHECK(a.points == b.points);
      digests.insert(a.digest);
    }
    CHECK(digests.size() >= 15);
  }
}

TEST_CASE("the default run needs no decision") {
  MiniReduce program({.ranks = 2, .blocks = 1, .threads = 4});
  InlineExecutor executor(program);
  RunSpec spec;
  spec.strategy.kind = StrategySpec::Kind::first;
  const Outcome out = executor.run(spec);
  CHECK(out.end == RunEnd::complete);
  CHECK(out.findings.empty());
  CHECK(out.decisions.empty());
}

TEST_CASE("a run repeats from its decisions alone") {
  // With a relaxed end barrier there are stale values to read, so all kinds of choices occur.
  MiniReduce program({.ranks = 3, .blocks = 2, .threads = 4, .end_put = Order::relaxed});
  InlineExecutor executor(program);
  std::set<DecisionKind> kinds;
  for (const auto kind : {StrategySpec::Kind::random, StrategySpec::Kind::pct}) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      RunSpec spec;
      spec.policy.boundary = machine::Boundary::strict;
      spec.ignore = {machine::FindingKind::data_race, machine::FindingKind::stale_read};
      spec.strategy = {.kind = kind, .seed = seed, .stale = 0.3};
      const Outcome run = executor.run(spec);
      for (const Decision& d : run.decisions) kinds.insert(d.kind);

      RunSpec again = spec;
      again.strategy.kind = StrategySpec::Kind::replay;
      again.strategy.seed = 999;
      again.decisions = run.decisions;
      const Outcome replayed = executor.run(again);
      REQUIRE(replayed.digest == run.digest);
      REQUIRE(replayed.decisions == run.decisions);
      REQUIRE(replayed.end == run.end);
      REQUIRE(replayed.findings.size() == run.findings.size());
      REQUIRE(replayed.steps == run.steps);
    }
  }
  CHECK(kinds.count(DecisionKind::pick) == 1);
  CHECK(kinds.count(DecisionKind::read) == 1);
}

TEST_CASE("a replay passes over decisions that do not apply") {
  MiniReduce program({.ranks = 2, .blocks = 1, .threads = 4});
  InlineExecutor executor(program);
  RunSpec spec;
  spec.strategy = {.kind = StrategySpec::Kind::pct, .seed = 5};
  const Outcome run = executor.run(spec);
  REQUIRE(run.decisions.size() > 2);
  spec.strategy.kind = StrategySpec::Kind::replay;
  spec.decisions = run.decisions;
  spec.decisions.push_back({12345, 6, DecisionKind::pick, 7});  // no such agent
  spec.decisions.push_back({run.decisions[0].agent, 1u << 30, DecisionKind::read, 1});
  CHECK(executor.run(spec).digest == run.digest);
  // Any part of the list is a legal run.
  for (std::size_t skip = 0; skip < run.decisions.size(); ++skip) {
    spec.decisions = run.decisions;
    spec.decisions.erase(spec.decisions.begin() + static_cast<std::ptrdiff_t>(skip));
    CHECK(executor.run(spec).end == RunEnd::complete);
  }
}

TEST_CASE("replay tells apart the questions that one access asks") {
  const std::vector<Decision> list = {{42, 3, DecisionKind::read, 2, 1},
                                      {42, 3, DecisionKind::coherence, 1, 0}};
  ReplayStrategy replay(list, std::pmr::new_delete_resource());
  replay.begin(0);
  CHECK(replay.choose(DecisionKind::read, 42, 3, 5) == 0);
  CHECK(replay.choose(DecisionKind::coherence, 42, 3, 5) == 1);
  CHECK(replay.choose(DecisionKind::read, 42, 3, 5) == 2);
  CHECK(replay.choose(DecisionKind::read, 42, 3, 5) == 0);
  CHECK(replay.choose(DecisionKind::read, 42, 4, 5) == 0);
  replay.begin(0);
  CHECK(replay.choose(DecisionKind::read, 42, 3, 5) == 0);
  CHECK(replay.choose(DecisionKind::read, 42, 3, 2) == 0);  // there is no answer 2 of 2
}

TEST_CASE("pct steps the highest ready agent and drops it at a change point") {
  // With depth 1 there is no change point: the order of the agents is one permutation.
  PctStrategy pct({.seed = 3, .depth = 1}, std::pmr::new_delete_resource());
  pct.begin(100);
  const Ready all({0, 1, 2, 3});
  for (AgentId id = 0; id < 4; ++id) {
    pct.on_spawn(id, 1000 + id);
    pct.on_ready(id);
  }
  const AgentId top = pct.pick(all, 0, true, 0, 0);
  for (int i = 0; i < 50; ++i) CHECK(pct.pick(all, top, true, 0, 0) == top);
  // When it blocks another one steps, until it is ready again.
  std::vector<AgentId> others;
  for (AgentId id = 0; id < 4; ++id) {
    if (id != top) others.push_back(id);
  }
  const AgentId second = pct.pick(Ready(others), top, false, 0, 0);
  CHECK(second != top);
  pct.on_ready(top);
  CHECK(pct.pick(all, second, true, 0, 0) == top);

  // With change points some seed preempts a running agent.
  int preempted = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    PctStrategy deep({.seed = seed, .depth = 3}, std::pmr::new_delete_resource());
    deep.begin(20);
    for (AgentId id = 0; id < 4; ++id) {
      deep.on_spawn(id, 1000 + id);
      deep.on_ready(id);
    }
    AgentId current = deep.pick(all, 0, true, 0, 0);
    int changes = 0;
    for (int i = 0; i < 30; ++i) {
      const AgentId next = deep.pick(all, current, true, 0, 0);
      changes += next != current;
      current = next;
    }
    CHECK(changes <= 2);
    preempted += changes > 0;
  }
  CHECK(preempted > 20);
}

TEST_CASE("pct meets a fault that needs one preemption at the right place") {
  // Thread 1 reports only if it reads 1, which is there between two stores of thread 0, ten stores
  // from the start. A run without a preemption never reads it.
  HostProgram program(1, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank,
             {[&p](Agent& a) {
                for (int i = 0; i < 10; ++i) store32(a, p.slot(0, 1), 7, Order::relaxed);
                store32(a, p.slot(0, 0), 1, Order::relaxed);
                store32(a, p.slot(0, 0), 2, Order::relaxed);
              },
              [&p](Agent& a) {
                if (load32(a, p.slot(0, 0), Order::relaxed) == 1) {
                  a.report(finding_of(machine::FindingKind::livelock));
                }
              }});
  });
  InlineExecutor executor(program);
  const auto found = [&](std::uint32_t depth, double stale) {
    int n = 0;
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
      RunSpec spec;
      spec.strategy = {
          .kind = StrategySpec::Kind::pct, .seed = seed, .depth = depth, .stale = stale};
      spec.policy.boundary = machine::Boundary::strict;
      spec.expected_points = 20;
      n += executor.run(spec).end == RunEnd::finding;
    }
    return n;
  };
  CHECK(found(1, 0) == 0);
  CHECK(found(2, 0) > 0);
  // A stale read finds it without a preemption: thread 1 runs last and reads an old message.
  CHECK(found(1, 0.5) > 0);
}

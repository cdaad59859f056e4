// Strategies against a schedule of their own, and through runs of small programs.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "emulator/schedule/inline_executor.hpp"
#include "emulator/schedule/strategies.hpp"
#include "tests/support/small_programs.hpp"

using namespace ringfence;
using namespace ringfence::schedule;
using namespace ringfence::testing;

namespace {

constexpr StrategySpec::Kind kDrawing[] = {StrategySpec::Kind::random, StrategySpec::Kind::pct,
                                           StrategySpec::Kind::pos, StrategySpec::Kind::surw};

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
  Pending pending(AgentId) const override { return Pending::access; }
  const PendingAccess& pending_access(AgentId) const override { return access_; }

 private:
  std::vector<AgentId> ids_;
  PendingAccess access_;
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
  for (const auto kind : kDrawing) {
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
  for (const auto kind : kDrawing) {
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

namespace {

// What each thread of a launch does to words that it names; and what order that gave: who swapped
// before whom.
class Swaps final : public SmallProgram {
 public:
  Swaps(std::vector<std::uint32_t> times, std::uint32_t private_ones)
      : SmallProgram(1), times_(std::move(times)), private_ones_(private_ones) {}
  void host(Agent& host, std::uint16_t) override {
    order.clear();
    std::vector<Agent::Body> bodies;
    for (std::uint32_t t = 0; t < times_.size(); ++t) {
      bodies.push_back([this, t](Agent& a) {
        for (std::uint32_t i = 0; i < private_ones_ * t; ++i) {
          store32(a, slot(0, 1 + t), i, Order::relaxed);
        }
        for (std::uint32_t i = 0; i < times_[t]; ++i) {
          a.rmw(slot(0, 0), {.order = Order::relaxed}, t, add);
          order.push_back(t);
        }
      });
    }
    launch(host, 0, std::move(bodies));
  }
  std::vector<std::uint32_t> order;

 private:
  std::vector<std::uint32_t> times_;
  std::uint32_t private_ones_;
};

// How often each order came in so many runs.
std::map<std::vector<std::uint32_t>, int> orders(Swaps& program, StrategySpec::Kind kind,
                                                 int runs) {
  InlineExecutor executor(program);
  RunSpec spec;
  spec.strategy.kind = StrategySpec::Kind::first;
  spec.take_profile = true;
  const Profile profile(executor.run(spec).seen);
  CHECK_FALSE(profile.empty());
  spec.take_profile = false;
  spec.profile = &profile;
  std::map<std::vector<std::uint32_t>, int> seen;
  for (int seed = 1; seed <= runs; ++seed) {
    spec.strategy = {.kind = kind, .seed = static_cast<std::uint64_t>(seed), .stale = 0};
    REQUIRE(executor.run(spec).end == RunEnd::complete);
    ++seen[program.order];
  }
  return seen;
}

}  // namespace

TEST_CASE("surw takes each interleaving of the accesses to a place about as often") {
  // 7! / (2! 5!) = 21 of them, though a walk would let the second thread's ones come early.
  Swaps program({2, 5}, 0);
  const auto seen = orders(program, StrategySpec::Kind::surw, 4200);
  CHECK(seen.size() == 21);
  // Five standard deviations of a binomial with n = 4200, p = 1/21.
  for (const auto& [order, times] : seen) CHECK(std::abs(times - 200) < 5 * 14);
}

TEST_CASE("surw's choice does not depend on accesses that nobody else makes") {
  Swaps program({1, 1}, 40);
  const auto seen = orders(program, StrategySpec::Kind::surw, 1000);
  REQUIRE(seen.size() == 2);
  for (const auto& [order, times] : seen) CHECK(std::abs(times - 500) < 5 * 16);
}

TEST_CASE("pos meets both orders of two accesses, whatever one of them has before it") {
  Swaps program({1, 1}, 40);
  const auto seen = orders(program, StrategySpec::Kind::pos, 1000);
  REQUIRE(seen.size() == 2);
  // Three quarters of the runs know that the others are private, and take each order half the time.
  for (const auto& [order, times] : seen) CHECK(times > 300);
}

namespace {

// Agents before no access, two ranks by turns.
class NoneBeforeAccess final : public ReadyView {
 public:
  explicit NoneBeforeAccess(std::vector<AgentId> ids) : ids_(std::move(ids)) {}
  static std::uint64_t label_of(AgentId id) {
    AgentLabel l;
    l.rank = static_cast<std::uint16_t>(id % 2);
    l.index = id;
    return pack(l);
  }
  std::uint32_t count() const override { return static_cast<std::uint32_t>(ids_.size()); }
  AgentId at(std::uint32_t i) const override { return ids_[i]; }
  AgentId lowest() const override { return *std::min_element(ids_.begin(), ids_.end()); }
  bool is_ready(AgentId id) const override {
    return std::find(ids_.begin(), ids_.end(), id) != ids_.end();
  }
  std::uint64_t label(AgentId id) const override { return label_of(id); }
  AgentId find(std::uint64_t) const override { return kNoAgent; }
  Pending pending(AgentId) const override { return Pending::none; }
  const PendingAccess& pending_access(AgentId) const override { return access_; }

 private:
  std::vector<AgentId> ids_;
  PendingAccess access_;
};

}  // namespace

TEST_CASE("pos changes ranks where no event is due only once none of the rank can step") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    PosStrategy pos({.seed = seed}, nullptr, std::pmr::new_delete_resource());
    pos.begin(100);
    for (AgentId id = 0; id < 6; ++id) {
      pos.on_spawn(id, NoneBeforeAccess::label_of(id));
      pos.on_ready(id);
    }
    const AgentId first = pos.pick(NoneBeforeAccess({0, 1, 2, 3, 4, 5}), kNoAgent, false, 0, 0);
    CHECK(pos.pick(NoneBeforeAccess({0, 1, 2, 3, 4, 5}), first, true, 0, 0) == first);
    std::vector<AgentId> left = {0, 1, 2, 3, 4, 5};
    AgentId current = first;
    std::vector<AgentId> order;
    while (!left.empty()) {
      order.push_back(current);
      left.erase(std::find(left.begin(), left.end(), current));
      if (!left.empty()) current = pos.pick(NoneBeforeAccess(left), current, false, 0, 0);
    }
    for (std::size_t i = 0; i < 6; ++i) CHECK(order[i] % 2 == (i < 3 ? first : first + 1) % 2);
  }
}

TEST_CASE("pos goes on with all agents where others were picked in its place") {
  PosStrategy pos({.seed = 1}, nullptr, std::pmr::new_delete_resource());
  pos.begin(100);
  for (AgentId id = 0; id < 4; ++id) {
    pos.on_spawn(id, NoneBeforeAccess::label_of(id));
    pos.on_ready(id);
  }
  std::vector<AgentId> left = {0, 1, 2, 3};
  // Each time another one than its own choice steps, and ends.
  AgentId own = pos.pick(NoneBeforeAccess(left), kNoAgent, false, 0, 0);
  while (left.size() > 1) {
    const AgentId other = left.front() != own ? left.front() : left.back();
    pos.took(other);
    left.erase(std::find(left.begin(), left.end(), other));
    own = pos.pick(NoneBeforeAccess(left), other, false, 0, 0);
    CHECK(std::find(left.begin(), left.end(), own) != left.end());
  }
  CHECK(own == left.front());
}

TEST_CASE("a profile has the places that several agents access and some write, in any order") {
  const machine::Address a{0, 0}, b{0, 16}, c{0, 32};
  std::vector<SeenAccess> seen = {{7, a, true}, {7, a, false}, {9, a, false},
                                  {7, b, true}, {7, c, false}, {9, c, false}};
  const Profile forward(seen);
  std::reverse(seen.begin(), seen.end());
  for (const Profile& p : {forward, Profile(seen)}) {
    REQUIRE(p.places().size() == 1);  // b is 7's alone, c is only read
    const Profile::Place place = p.places()[0];
    CHECK(place.key == place_key(a));
    REQUIRE(p.counts(place).size() == 2);
    CHECK(p.counts(place)[0].label == 7);
    CHECK(p.counts(place)[0].accesses == 2);
    CHECK(p.counts(place)[1].label == 9);
    CHECK(p.counts(place)[1].accesses == 1);
  }
}

namespace {

// Fingerprints of so many runs of a random walk, and the orders of the swaps.
std::pair<std::set<std::uint64_t>, std::set<std::vector<std::uint32_t>>> trails(Swaps& program,
                                                                                double stale) {
  InlineExecutor executor(program);
  RunSpec spec;
  spec.trail = true;
  std::pair<std::set<std::uint64_t>, std::set<std::vector<std::uint32_t>>> out;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    spec.strategy = {.kind = StrategySpec::Kind::random, .seed = seed, .stale = stale};
    const Outcome o = executor.run(spec);
    REQUIRE(o.end == RunEnd::complete);
    out.first.insert(o.fingerprint);
    out.second.insert(program.order);
  }
  return out;
}

}  // namespace

TEST_CASE("a trail's fingerprint tells orders of conflicting accesses apart, and no others") {
  // Two swaps of each of two threads: 4! / (2! 2!) orders. The second thread's other accesses are
  // to a place of its own: their order makes no difference.
  Swaps program({2, 2}, 3);
  const auto [prints, orders] = trails(program, 0);
  CHECK(orders.size() == 6);
  CHECK(prints.size() == 6);
  // Threads that share nothing have one trail, however they are interleaved.
  Swaps apart({0, 0}, 5);
  CHECK(trails(apart, 0).first.size() == 1);
}

TEST_CASE("a trail counts which line's write which line read") {
  HostProgram program(1, [](HostProgram& p, Agent& host, std::uint16_t rank) {
    p.launch(host, rank, {[&p](Agent& a) {
               std::uint32_t v = 7;
               const Address at = p.slot(0, 0);
               a.read(at, {.order = Order::relaxed, .site = 3},
                      std::as_writable_bytes(std::span(&v, 1)));
               a.write(at, {.order = Order::relaxed, .site = 4}, std::as_bytes(std::span(&v, 1)));
               for (int i = 0; i < 2; ++i) {
                 a.read(at, {.order = Order::relaxed, .site = 5},
                        std::as_writable_bytes(std::span(&v, 1)));
               }
             }});
  });
  InlineExecutor executor(program);
  RunSpec spec;
  spec.strategy.kind = StrategySpec::Kind::first;
  CHECK(executor.run(spec).pairs.empty());  // none is asked for
  spec.trail = true;
  const Outcome o = executor.run(spec);
  REQUIRE(o.pairs.size() == 2);
  CHECK(o.pairs[0].write_site == machine::Trail::kInitial);
  CHECK(o.pairs[0].read_site == 3);
  CHECK_FALSE(o.pairs[0].own);
  CHECK(o.pairs[0].times == 1);
  CHECK(o.pairs[1].write_site == 4);
  CHECK(o.pairs[1].read_site == 5);
  CHECK(o.pairs[1].own);
  CHECK(o.pairs[1].times == 2);
}

TEST_CASE("a portfolio's strategy follows from the seed, and all kinds come up") {
  std::map<StrategySpec::Kind, int> kinds;
  std::set<std::uint32_t> depths;
  int exact = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const StrategySpec spec{.kind = StrategySpec::Kind::portfolio, .seed = seed};
    const StrategySpec a = drawn(spec), b = drawn(spec);
    CHECK(a.kind == b.kind);
    CHECK(a.depth == b.depth);
    CHECK(a.seed == seed);
    CHECK(drawn(a).kind == a.kind);
    ++kinds[a.kind];
    if (a.kind == StrategySpec::Kind::pct) depths.insert(a.depth);
    exact += a.stale == 0;
  }
  for (const StrategySpec::Kind kind : kDrawing) CHECK(kinds[kind] > 10);
  CHECK(kinds.size() == 4);
  CHECK(depths == std::set<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(exact > 200);
  CHECK(exact < 500);
}

TEST_CASE(
    "a mutant is a run like others: it repeats from its decisions, and differs from its origin") {
  MiniReduce program({.ranks = 3, .blocks = 1, .threads = 4});
  InlineExecutor executor(program);
  RunSpec spec;
  spec.strategy = {.kind = StrategySpec::Kind::random, .seed = 3, .stale = 0};
  const Outcome origin = executor.run(spec);
  std::set<std::uint64_t> digests;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    RunSpec mutant = spec;
    mutant.strategy = {.kind = StrategySpec::Kind::mutant, .seed = seed, .stale = 0};
    mutant.decisions = origin.decisions;
    mutant.expected_points = origin.points;
    const Outcome a = executor.run(mutant);
    CHECK(a.end == RunEnd::complete);
    CHECK(executor.run(mutant).digest == a.digest);
    digests.insert(a.digest);
    RunSpec again = spec;
    again.strategy.kind = StrategySpec::Kind::replay;
    again.decisions = a.decisions;
    CHECK(executor.run(again).digest == a.digest);
  }
  CHECK(digests.size() > 30);
}

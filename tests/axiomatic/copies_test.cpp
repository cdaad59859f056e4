// Bulk copies in the axioms: what orders their accesses with those of threads (PTX ISA, "Async
// proxy", "Completion mechanisms for asynchronous copies"). Each order has a twin that lacks it.

#include <doctest/doctest.h>

#include "tests/axiomatic/check.hpp"

using namespace ringfence::axiomatic;

namespace {

using Code = std::vector<Instruction>;
using Kind = Instruction::Kind;
using Outcomes = std::set<Outcome>;

// Locations: where copies come from, where they go to, a third one; all begin with 0.
constexpr int kSource = 0, kGoal = 1, kOther = 2;
constexpr Value kBytes = 16;

Instruction access(Kind kind, int location, Value value = 0, Order order = Order::Weak) {
  Instruction i;
  i.kind = kind;
  i.address.location = location;
  i.a.constant = value;
  i.order = order;
  if (kind == Kind::Load) i.destination = 0;
  return i;
}
Instruction store(int location, Value value) { return access(Kind::Store, location, value); }
Instruction load(int location) { return access(Kind::Load, location); }
Instruction red(int location, Value value) {
  Instruction i = access(Kind::Rmw, location, value, Order::Relaxed);
  i.op = Op::Add;
  return i;
}
Instruction copy(bool signals, Op op = Op::Move) {
  Instruction i = access(Kind::Copy, kGoal);
  i.op = op;
  i.source.location = kSource;
  i.signals = signals;
  i.bytes = signals ? kBytes : 0;
  return i;
}
Instruction fence() {
  Instruction i;
  i.kind = Kind::Bridge;
  i.proxy = Proxy::Async;
  return i;
}
Instruction group_wait(bool reads_only = false) {
  Instruction i;
  i.kind = Kind::GroupWait;
  i.reads_only = reads_only;
  return i;
}
Instruction arrive(Value bytes, Order order = Order::Release) {
  Instruction i;
  i.kind = Kind::MbarrierArrive;
  i.bytes = bytes;
  i.order = order;
  i.scope = Scope::Cta;
  return i;
}
Instruction wait(Order order = Order::Acquire) {
  Instruction i;
  i.kind = Kind::MbarrierWait;
  i.order = order;
  i.scope = Scope::Cta;
  return i;
}
Instruction met() {
  Instruction i;
  i.kind = Kind::BarSync;
  i.barrier_id = 1;
  return i;
}

// Threads of one block, each with a register, as a machine runs them that executes in order.
Result run(const std::vector<Code>& threads, Value arrivals = 1) {
  Program p;
  p.locations.assign(3, {.initial = 0, .bits = 32, .zero_extends = true});
  p.mbarriers.push_back({arrivals});
  for (const Code& code : threads) {
    Thread t;
    t.registers.push_back(0);
    t.code = code;
    p.threads.push_back(std::move(t));
  }
  Options options;
  options.load_buffering = options.sc_against_reads_from = false;
  return check(p, options);
}

bool races(const std::vector<Code>& threads, Value arrivals = 1) {
  const Result r = run(threads, arrivals);
  CHECK_FALSE(r.outcomes.empty());
  return r.race_unobserved;
}

}  // namespace

TEST_CASE("a copy of what a thread wrote needs a fence, and a wait before what it wrote is read") {
  const Result r = run({{store(kSource, 7), fence(), copy(false), group_wait(), load(kGoal)}});
  CHECK_FALSE(r.race);
  CHECK(r.outcomes == Outcomes{{7, 7, 7, 0}});
  CHECK(races({{store(kSource, 7), copy(false), group_wait(), load(kGoal)}}));
  CHECK(races({{store(kSource, 7), fence(), copy(false), load(kGoal)}}));
  CHECK(races({{store(kSource, 7), fence(), copy(false), group_wait(true), load(kGoal)}}));
}

TEST_CASE("a wait for reads alone lets the source be written again, and no wait does not") {
  const auto again = [](const Code& waits) {
    Code code = {copy(false)};
    code.insert(code.end(), waits.begin(), waits.end());
    code.push_back(store(kSource, 1));
    return code;
  };
  CHECK_FALSE(races({again({group_wait(true)})}));
  CHECK_FALSE(races({again({group_wait()})}));
  CHECK(races({again({})}));
}

TEST_CASE("the fence may stand in either thread, on the path between the write and the copy") {
  const auto handed = [](bool there, bool here) {
    Code writer = {store(kSource, 7)}, issuer = {met()};
    if (there) writer.push_back(fence());
    writer.push_back(met());
    if (here) issuer.push_back(fence());
    issuer.push_back(copy(false));
    issuer.push_back(group_wait());
    return races({writer, issuer});
  };
  CHECK_FALSE(handed(true, false));
  CHECK_FALSE(handed(false, true));
  CHECK(handed(false, false));
  // Before the write, or behind the copy, it is on no path.
  CHECK(races({{fence(), store(kSource, 7), met()}, {met(), copy(false), fence(), group_wait()}}));
}

TEST_CASE("what a phase's bytes wrote is there for who waits for it with acquire") {
  const auto loaded = [](Instruction waits) {
    return run({{arrive(kBytes), copy(true)}, {waits, load(kGoal)}});
  };
  const Result r = loaded(wait());
  CHECK_FALSE(r.race);
  CHECK_FALSE(r.undefined);
  CHECK(r.outcomes == Outcomes{{0, 0, 0, 0, 0}});
  CHECK(loaded(wait(Order::Relaxed)).race_unobserved);
  // The arrival alone does not end the phase.
  CHECK(races({{arrive(0), copy(true)}, {wait(), load(kGoal)}}));
}

TEST_CASE("the end of a copy hands on the copy, not what its thread did before") {
  // The second thread's arrival is the one that the phase counts.
  const auto handed = [](Code first, Value arrivals) {
    return races({std::move(first), {arrive(kBytes), met(), wait(), load(kOther)}}, arrivals);
  };
  CHECK_FALSE(handed({store(kOther, 7), met(), copy(true)}, 1));  // the barrier orders it
  const auto behind = [](Code first, Value arrivals) {
    return races({std::move(first), {arrive(kBytes), wait(), load(kOther)}}, arrivals);
  };
  CHECK(behind({store(kOther, 7), copy(true)}, 1));
  CHECK_FALSE(behind({store(kOther, 7), copy(true), arrive(0)}, 2));
  CHECK(behind({store(kOther, 7), copy(true), arrive(0, Order::Relaxed)}, 2));
}

TEST_CASE("copies that add are atomic with each other, and with no atomic of a thread") {
  const Code adds = {copy(false, Op::Add), group_wait()};
  CHECK_FALSE(races({adds, adds}));
  CHECK(races({adds, {red(kGoal, 1)}}));
  CHECK_FALSE(
      races({{red(kGoal, 1), fence(), met()}, {met(), copy(false, Op::Add), group_wait()}}));
  CHECK(races({{red(kGoal, 1), met()}, {met(), copy(false, Op::Add), group_wait()}}));
}

TEST_CASE("an arrival beyond what a phase counts is undefined, also while bytes are missing") {
  CHECK_FALSE(run({{arrive(kBytes), copy(true), wait()}, {wait(), arrive(0)}}).undefined);
  CHECK(run({{arrive(kBytes), copy(true), wait()}, {met(), arrive(0)}, {met()}}).undefined);
}

#include "emulator/trace/graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/trace/samples.hpp"

namespace ringfence::trace {
namespace {

using machine::Event;
using machine::Order;
using machine::Scope;
using Kind = Event::Kind;

// A run written down event by event; each is told by its index.
struct Events {
  std::vector<Event> list;
  std::uint32_t step = 0;

  EventIndex add(const std::string& agent, Kind kind, Order order, machine::RegionId region,
                 EventIndex from = kNoEvent, Scope scope = Scope::sys) {
    Event e;
    e.kind = kind;
    e.label = label(agent);
    e.step = machine::is_step(kind) ? ++step : step;
    e.order = order;
    e.scope = scope;
    e.address = {region, 0};
    e.bytes = machine::is_access(kind) ? 4 : 0;
    if (from != kNoEvent) {
      e.from_step = list[from].step;
      e.from_label = list[from].label;
    }
    list.push_back(e);
    return static_cast<EventIndex>(list.size() - 1);
  }
  EventIndex fence(const std::string& agent, Scope scope = Scope::sys) {
    return add(agent, Kind::fence, Order::acq_rel, 0, kNoEvent, scope);
  }
  bool before(EventIndex a, EventIndex b,
              machine::Boundary mode = machine::Boundary::strict) const {
    machine::Policy policy;
    policy.boundary = mode;
    const auto all = past(list, make_graph(list, policy), b);
    return std::binary_search(all.begin(), all.end(), a);
  }
};

// Message passing: data weakly, then the flag; whether the store of data is in the load's past.
bool passes(Order put, Order wait, Scope scope = Scope::sys) {
  Events e;
  const auto data = e.add("r0.c0.b0.t0", Kind::write, Order::weak, 0);
  const auto flag = e.add("r0.c0.b0.t0", Kind::write, put, 1, kNoEvent, scope);
  e.add("r1.c0.b0.t0", Kind::read, wait, 1, flag, scope);
  const auto load = e.add("r1.c0.b0.t0", Kind::read, Order::weak, 0, data);
  return e.before(data, load);
}

TEST_CASE("a release that an acquire reads is in its past; relaxed on either side it is not") {
  CHECK(passes(Order::release, Order::acquire));
  CHECK_FALSE(passes(Order::relaxed, Order::acquire));
  CHECK_FALSE(passes(Order::release, Order::relaxed));
  CHECK_FALSE(passes(Order::weak, Order::weak));
}

TEST_CASE("a flag of scope gpu between two ranks orders nothing") {
  CHECK_FALSE(passes(Order::release, Order::acquire, Scope::gpu));
}

TEST_CASE("fences make patterns of relaxed accesses, as far as their scope reaches") {
  for (const auto& [first, second, ordered] :
       {std::tuple{Scope::sys, Scope::sys, true}, std::tuple{Scope::gpu, Scope::sys, false},
        std::tuple{Scope::sys, Scope::gpu, false}}) {
    Events e;
    const auto data = e.add("r0.c0.b0.t0", Kind::write, Order::weak, 0);
    e.fence("r0.c0.b0.t0", first);
    const auto flag = e.add("r0.c0.b0.t0", Kind::write, Order::relaxed, 1);
    e.add("r1.c0.b0.t0", Kind::read, Order::relaxed, 1, flag);
    e.fence("r1.c0.b0.t0", second);
    const auto load = e.add("r1.c0.b0.t0", Kind::read, Order::weak, 0, data);
    CHECK(e.before(data, load) == ordered);
  }
}

TEST_CASE("a read-modify-write carries on what it read, a plain store on top does not") {
  for (const Kind middle : {Kind::rmw, Kind::write}) {
    Events e;
    const auto data = e.add("r0.c0.b0.t0", Kind::write, Order::weak, 0);
    const auto flag = e.add("r0.c0.b0.t0", Kind::write, Order::release, 1);
    const auto other =
        e.add("r1.c0.b0.t0", middle, Order::relaxed, 1, middle == Kind::rmw ? flag : kNoEvent);
    e.add("r2.c0.b0.t0", Kind::read, Order::acquire, 1, other);
    const auto load = e.add("r2.c0.b0.t0", Kind::read, Order::weak, 0, data);
    CHECK(e.before(data, load) == (middle == Kind::rmw));
  }
}

TEST_CASE("a block barrier orders its block's threads, and no other block's") {
  Events e;
  const auto data = e.add("r0.c0.b0.t1", Kind::write, Order::weak, 0);
  e.add("r0.c0.b0.t0", Kind::barrier, Order::acq_rel, 0);
  --e.step;
  e.add("r0.c0.b0.t1", Kind::barrier, Order::acq_rel, 0);
  const auto inside = e.add("r0.c0.b0.t0", Kind::read, Order::weak, 0, data);
  const auto outside = e.add("r0.c0.b1.t0", Kind::read, Order::weak, 0, data);
  CHECK(e.before(data, inside));
  CHECK_FALSE(e.before(data, outside));
}

TEST_CASE("a launch follows the earlier ones of its rank alone") {
  Events e;
  const auto mine = e.add("r0.c0.product.b0.t0", Kind::write, Order::weak, 0);
  const auto theirs = e.add("r1.c0.product.b0.t0", Kind::write, Order::weak, 1);
  e.add("r0.c0.b0.t0", Kind::launch, Order::weak, 0);
  const auto load = e.add("r0.c0.b0.t0", Kind::read, Order::weak, 0, mine);
  CHECK(e.before(mine, load));
  CHECK_FALSE(e.before(theirs, load));
}

TEST_CASE("in mode stream a launch begins with a fence, in strict it does not") {
  Events e;
  const auto data = e.add("r0.c0.product.b0.t0", Kind::write, Order::weak, 0);
  e.add("r0.c0.b0.t0", Kind::launch, Order::weak, 0);
  const auto flag = e.add("r0.c0.b0.t0", Kind::write, Order::relaxed, 1);
  e.add("r1.c0.b0.t0", Kind::read, Order::acquire, 1, flag);
  const auto load = e.add("r1.c0.b0.t0", Kind::read, Order::weak, 0, data);
  CHECK(e.before(data, load, machine::Boundary::stream));
  CHECK_FALSE(e.before(data, load, machine::Boundary::strict));
}

TEST_CASE("an operation of a task graph follows those it depends on, and no others") {
  Events e;
  const auto data = e.add("r0.c0.task.b0.t0", Kind::write, Order::weak, 0);
  const auto other = e.add("r0.c0.task.b0.t1", Kind::write, Order::weak, 1);
  e.add("r0.c0.task.b0.t2", Kind::dependency, Order::weak, 0);
  e.list.back().from_label = label("r0.c0.task.b0.t0");
  const auto load = e.add("r0.c0.task.b0.t2", Kind::read, Order::weak, 0, data);
  CHECK(e.before(data, load));
  CHECK_FALSE(e.before(other, load));
}

}  // namespace
}  // namespace ringfence::trace

// The classic litmus shapes. Each case asserts the whole set of outcomes: what must be reachable
// and, by equality, what must not. Threads are on different ranks unless a case says otherwise.
// Expected sets are derived by hand from the axioms of the PTX manual.

#include "tests/machine/explore.hpp"

using namespace ringfence::machine;
using namespace ringfence::machine::test;

namespace {

constexpr Address x{0, 0}, y{1, 0};
constexpr Order weak = Order::weak, rlx = Order::relaxed, acq = Order::acquire,
                rel = Order::release;
using Set = std::set<std::string>;

Explorer shape(std::vector<ThreadSpec> threads) {
  Explorer e;
  e.regions = {word(0), word(1)};
  e.threads = std::move(threads);
  return e;
}

const Set kAllTwo{"a=0 b=0", "a=0 b=1", "a=1 b=0", "a=1 b=1"};
Set without(Set s, const std::string& o) {
  REQUIRE(s.erase(o) == 1);
  return s;
}

}  // namespace

TEST_CASE("MP: a relaxed flag lets the reader miss the data") {
  auto e =
      shape({{0, 0, {st(x, 1, rlx), st(y, 1, rlx)}}, {1, 0, {ld("a", y, rlx), ld("b", x, rlx)}}});
  CHECK(e.run().all == kAllTwo);
}

TEST_CASE("MP: release and acquire forbid a flag without its data") {
  auto e =
      shape({{0, 0, {st(x, 1, weak), st(y, 1, rel)}}, {1, 0, {ld("a", y, acq), ld("b", x, rlx)}}});
  CHECK(e.run().all == without(kAllTwo, "a=1 b=0"));
}

TEST_CASE("MP: a release without an acquire, and an acquire without a release, order nothing") {
  auto half =
      shape({{0, 0, {st(x, 1, rlx), st(y, 1, rel)}}, {1, 0, {ld("a", y, rlx), ld("b", x, rlx)}}});
  CHECK(half.run().all == kAllTwo);
  auto other =
      shape({{0, 0, {st(x, 1, rlx), st(y, 1, rlx)}}, {1, 0, {ld("a", y, acq), ld("b", x, rlx)}}});
  CHECK(other.run().all == kAllTwo);
}

TEST_CASE("MP: fences on both sides do what release and acquire do") {
  const auto f = fence(Machine::Fence::acq_rel);
  auto e = shape(
      {{0, 0, {st(x, 1, rlx), f, st(y, 1, rlx)}}, {1, 0, {ld("a", y, rlx), f, ld("b", x, rlx)}}});
  CHECK(e.run().all == without(kAllTwo, "a=1 b=0"));
  auto one = shape(
      {{0, 0, {st(x, 1, rlx), f, st(y, 1, rlx)}}, {1, 0, {ld("a", y, rlx), ld("b", x, rlx)}}});
  CHECK(one.run().all == kAllTwo);
}

TEST_CASE("MP: a release fence publishes nothing that follows it") {
  const auto f = fence(Machine::Fence::acq_rel);
  auto e = shape(
      {{0, 0, {f, st(x, 1, rlx), st(y, 1, rlx)}}, {1, 0, {ld("a", y, acq), ld("b", x, rlx)}}});
  CHECK(e.run().all == kAllTwo);
}

TEST_CASE("MP: the reader's own later read of the flag may be the acquire") {
  // A strong read followed by an acquire read of the same location is an acquire pattern.
  auto e = shape({{0, 0, {st(x, 1, rlx), st(y, 1, rel)}},
                  {1, 0, {ld("a", y, rlx), ld("c", y, acq), ld("b", x, rlx)}}});
  const auto o = e.run();
  CHECK_FALSE(o.has("a=1 b=0 c=1"));
  CHECK(o.has("a=0 b=0 c=0"));
}

TEST_CASE("SB: both readers may miss both writes, and only fence.sc forbids it") {
  auto relaxed =
      shape({{0, 0, {st(x, 1, rlx), ld("a", y, rlx)}}, {1, 0, {st(y, 1, rlx), ld("b", x, rlx)}}});
  CHECK(relaxed.run().all == kAllTwo);
  auto ra =
      shape({{0, 0, {st(x, 1, rel), ld("a", y, acq)}}, {1, 0, {st(y, 1, rel), ld("b", x, acq)}}});
  CHECK(ra.run().all == kAllTwo);
  const auto ar = fence(Machine::Fence::acq_rel), sc = fence(Machine::Fence::sc);
  auto weak_fence = shape(
      {{0, 0, {st(x, 1, rlx), ar, ld("a", y, rlx)}}, {1, 0, {st(y, 1, rlx), ar, ld("b", x, rlx)}}});
  CHECK(weak_fence.run().all == kAllTwo);
  auto strong = shape(
      {{0, 0, {st(x, 1, rlx), sc, ld("a", y, rlx)}}, {1, 0, {st(y, 1, rlx), sc, ld("b", x, rlx)}}});
  CHECK(strong.run().all == without(kAllTwo, "a=0 b=0"));
}

TEST_CASE("SB: fence.sc of a scope that does not reach the other rank forbids nothing") {
  const auto sc = fence(Machine::Fence::sc, Scope::gpu);
  auto e = shape(
      {{0, 0, {st(x, 1, rlx), sc, ld("a", y, rlx)}}, {1, 0, {st(y, 1, rlx), sc, ld("b", x, rlx)}}});
  CHECK(e.run().all == kAllTwo);
  auto same_gpu = shape(
      {{0, 0, {st(x, 1, rlx), sc, ld("a", y, rlx)}}, {0, 1, {st(y, 1, rlx), sc, ld("b", x, rlx)}}});
  CHECK(same_gpu.run().all == without(kAllTwo, "a=0 b=0"));
}

TEST_CASE("LB: a read never returns a write that its thread's run has yet to allow") {
  // The PTX model allows a=1 b=1; this machine leaves load buffering out, and says so.
  auto e =
      shape({{0, 0, {ld("a", x, rlx), st(y, 1, rlx)}}, {1, 0, {ld("b", y, rlx), st(x, 1, rlx)}}});
  CHECK(e.run().all == without(kAllTwo, "a=1 b=1"));
}

TEST_CASE("S: the writer of the data cannot be overtaken behind an acquired flag") {
  // P0: x=2; y=1 (release). P1: reads y (acquire), writes x=1. Final x=2 with a=1 is forbidden:
  // x=2 precedes x=1 in causality, so in coherence. A third reader sees the last value.
  const auto last = ld("x", x, acq);
  auto e = shape(
      {{0, 0, {st(x, 2, rlx), st(y, 1, rel)}}, {1, 0, {ld("a", y, acq), st(x, 1, rlx), last}}});
  CHECK(e.run().all == Set{"a=0 x=1", "a=0 x=2", "a=1 x=1"});
}

TEST_CASE("2+2W: both locations may end with their first writes unless fence.sc stands between") {
  // Each thread reads back the location that it wrote first; a=1 b=1 means that both overwrote.
  const auto sc = fence(Machine::Fence::sc);
  auto relaxed =
      shape({{0, 0, {st(x, 1, rlx), st(y, 2, rlx)}},
             {1, 0, {st(y, 1, rlx), st(x, 2, rlx)}},
             {2, 0, {ld("a", x, rlx), ld("c", x, rlx), ld("b", y, rlx), ld("d", y, rlx)}}});
  // x goes 2 then 1 and y goes 2 then 1: each thread's second write lands before the other's first.
  CHECK(relaxed.run().has("a=2 b=2 c=1 d=1"));
  auto fenced =
      shape({{0, 0, {st(x, 1, rlx), sc, st(y, 2, rlx)}},
             {1, 0, {st(y, 1, rlx), sc, st(x, 2, rlx)}},
             {2, 0, {ld("a", x, rlx), ld("c", x, rlx), ld("b", y, rlx), ld("d", y, rlx)}}});
  const auto o = fenced.run();
  CHECK_FALSE(o.has("a=2 b=2 c=1 d=1"));
  CHECK(o.has("a=2 b=1 c=1 d=2"));
}

TEST_CASE("WRC: causality passes through a third thread only along release and acquire") {
  auto ra = shape({{0, 0, {st(x, 1, rlx)}},
                   {1, 0, {ld("a", x, rlx), st(y, 1, rel)}},
                   {2, 0, {ld("b", y, acq), ld("c", x, rlx)}}});
  const auto o = ra.run();
  // Observation of x=1 followed by base causality: P2 may not read the older x.
  CHECK_FALSE(o.has("a=1 b=1 c=0"));
  CHECK(o.has("a=1 b=1 c=1"));
  CHECK(o.has("a=1 b=0 c=0"));
  auto relaxed = shape({{0, 0, {st(x, 1, rlx)}},
                        {1, 0, {ld("a", x, rlx), st(y, 1, rlx)}},
                        {2, 0, {ld("b", y, acq), ld("c", x, rlx)}}});
  CHECK(relaxed.run().has("a=1 b=1 c=0"));
}

TEST_CASE("WRC: a weak read in the middle observes nothing") {
  auto e = shape({{0, 0, {st(x, 1, rlx)}},
                  {1, 0, {ld("a", x, weak), st(y, 1, rel)}},
                  {2, 0, {ld("b", y, acq), ld("c", x, rlx)}}});
  const auto o = e.run();
  CHECK(o.has("a=1 b=1 c=0"));
  CHECK(o.findings.count(FindingKind::data_race) == 1);
}

TEST_CASE("IRIW: readers may disagree under release and acquire; fence.sc makes them agree") {
  const auto sc = fence(Machine::Fence::sc);
  auto ra = shape({{0, 0, {st(x, 1, rel)}},
                   {1, 0, {st(y, 1, rel)}},
                   {2, 0, {ld("a", x, acq), ld("b", y, acq)}},
                   {3, 0, {ld("c", y, acq), ld("d", x, acq)}}});
  CHECK(ra.run().has("a=1 b=0 c=1 d=0"));
  auto fenced = shape({{0, 0, {st(x, 1, rlx)}},
                       {1, 0, {st(y, 1, rlx)}},
                       {2, 0, {ld("a", x, rlx), sc, ld("b", y, rlx)}},
                       {3, 0, {ld("c", y, rlx), sc, ld("d", x, rlx)}}});
  const auto o = fenced.run();
  CHECK_FALSE(o.has("a=1 b=0 c=1 d=0"));
  CHECK(o.has("a=1 b=0 c=1 d=1"));
}

TEST_CASE("CoRR: two strong reads of one location agree with coherence, two weak ones need not") {
  auto strong = shape({{0, 0, {st(x, 1, rlx)}}, {1, 0, {ld("a", x, rlx), ld("b", x, rlx)}}});
  CHECK(strong.run().all == Set{"a=0 b=0", "a=0 b=1", "a=1 b=1"});
  auto weak_reads = shape({{0, 0, {st(x, 1, rlx)}}, {1, 0, {ld("a", x, weak), ld("b", x, weak)}}});
  const auto o = weak_reads.run();
  CHECK(o.all == Set{"a=0 b=0", "a=0 b=1", "a=1 b=0", "a=1 b=1"});
  CHECK(o.findings == std::set{FindingKind::data_race});
}

TEST_CASE("CoWR, CoRW and CoWW: a thread's own order on a location is kept") {
  auto own = shape({{0, 0, {st(x, 1, rlx), ld("a", x, rlx)}}, {1, 0, {st(x, 2, rlx)}}});
  CHECK(own.run().all == Set{"a=1", "a=2"});
  // A read followed by a write: the read cannot return it, and what it read precedes the write.
  auto rw =
      shape({{0, 0, {ld("a", x, rlx), st(x, 1, rlx), ld("b", x, rlx)}}, {1, 0, {st(x, 2, rlx)}}});
  const auto o = rw.run();
  CHECK_FALSE(o.has("a=1 b=1"));
  CHECK_FALSE(o.has("a=2 b=2"));
  CHECK(o.has("a=2 b=1"));
  CHECK(o.has("a=0 b=2"));
  auto ww =
      shape({{0, 0, {st(x, 1, rlx), st(x, 2, rlx)}}, {1, 0, {ld("a", x, rlx), ld("b", x, rlx)}}});
  CHECK(ww.run().all == Set{"a=0 b=0", "a=0 b=1", "a=0 b=2", "a=1 b=1", "a=1 b=2", "a=2 b=2"});
}

TEST_CASE("CoRR: two readers of two racing strong writes see them in one order") {
  auto e = shape({{0, 0, {st(x, 1, rlx)}},
                  {1, 0, {st(x, 2, rlx)}},
                  {2, 0, {ld("a", x, rlx), ld("b", x, rlx)}},
                  {3, 0, {ld("c", x, rlx), ld("d", x, rlx)}}});
  const auto o = e.run();
  CHECK(o.has("a=1 b=2 c=1 d=2"));
  CHECK(o.has("a=2 b=1 c=2 d=1"));
  CHECK_FALSE(o.has("a=1 b=2 c=2 d=1"));
}

TEST_CASE("ISA2: causality is transitive over two flags") {
  Explorer e;
  e.regions = {word(0), word(1), word(2)};
  const Address z{2, 0};
  e.threads = {{0, 0, {st(x, 1, weak), st(y, 1, rel)}},
               {1, 0, {ld("a", y, acq), st(z, 1, rel)}},
               {2, 0, {ld("b", z, acq), ld("c", x, rlx)}}};
  const auto o = e.run();
  CHECK_FALSE(o.has("a=1 b=1 c=0"));
  CHECK(o.has("a=1 b=1 c=1"));
}

namespace {

// A store at both x and y by one instruction; by two, as the twin.
Step st_both(Order o, bool one = true) {
  return [=](Machine& m, ThreadId t, Registers&) {
    const std::uint32_t v = 1;
    for (std::size_t i = 0; i < 2; ++i) {
      Access a = access(o);
      if (one) a.share = share_of(i, 2);
      m.write(t, i == 0 ? x : y, a, std::as_bytes(std::span(&v, 1)));
    }
    return true;
  };
}

}  // namespace

TEST_CASE("multimem: what it does at one replica orders nothing at another") {
  for (const auto& [first, second] : {std::pair(x, y), std::pair(y, x)}) {
    auto e = shape({{0, 0, {st_both(rel)}}, {1, 0, {ld("a", first, acq), ld("b", second, rlx)}}});
    CHECK(e.run().all == kAllTwo);
  }
  auto two = shape({{0, 0, {st_both(rel, false)}}, {1, 0, {ld("a", y, acq), ld("b", x, rlx)}}});
  CHECK(two.run().all == without(kAllTwo, "a=1 b=0"));
}

TEST_CASE(
    "multimem: each part publishes what came before the instruction, and is seen by its reader") {
  const Address z{0, 8};
  for (const Address flag : {x, y}) {
    auto e = shape({{0, 0, {st(z, 1, weak), st_both(rel)}},
                    {1, 0, {await(flag, 1, acq), ld("a", z, weak), ld("b", flag, rlx)}}});
    const Outcomes o = e.run();
    CHECK(o.all == Set{"a=1 b=1"});
    CHECK(o.findings.empty());
    auto relaxed = shape(
        {{0, 0, {st(z, 1, weak), st_both(rlx)}}, {1, 0, {await(flag, 1, acq), ld("a", z, weak)}}});
    CHECK(relaxed.run().findings == std::set{FindingKind::data_race});
  }
}

TEST_CASE("multimem: what comes behind the instruction comes behind all of its parts") {
  const Address z{0, 8};
  auto later = shape({{0, 0, {st_both(rel), st(z, 1, rel)}},
                      {1, 0, {await(z, 1, acq), ld("a", x, rlx), ld("b", y, rlx)}}});
  CHECK(later.run().all == Set{"a=1 b=1"});
  // A weak store behind it is no part of what it publishes.
  auto behind =
      shape({{0, 0, {st_both(rel), st(z, 1, weak)}}, {1, 0, {await(y, 1, acq), ld("a", z, weak)}}});
  CHECK(behind.run().findings == std::set{FindingKind::data_race});
  // A relaxed store to one of its places hands on what the part there released.
  const auto f = fence(Machine::Fence::acq_rel);
  auto again = shape({{0, 0, {st(z, 1, weak), st_both(rel), st(y, 2, rlx)}},
                      {1, 0, {await(y, 2, acq), ld("a", z, weak)}}});
  CHECK(again.run().findings.empty());
  auto fenced = shape(
      {{0, 0, {st(z, 1, weak), f, st_both(rlx)}}, {1, 0, {await(y, 1, acq), ld("a", z, weak)}}});
  CHECK(fenced.run().findings.empty());
}

// Release and acquire patterns, scopes, read-modify-writes, bar.sync and races.

#include "tests/machine/explore.hpp"

using namespace ringfence::machine;
using namespace ringfence::machine::test;

namespace {

constexpr Address x{0, 0}, y{1, 0};
constexpr Order weak = Order::weak, rlx = Order::relaxed, acq = Order::acquire,
                rel = Order::release, acqrel = Order::acq_rel;

Explorer on_two_words(std::vector<ThreadSpec> threads) {
  Explorer e;
  e.regions = {word(0), word(1)};
  e.threads = std::move(threads);
  return e;
}

// Data in x by a weak store, then `send`; the receiver waits with `receive` and reads x weakly.
Outcomes pass_message(std::vector<Step> send, std::vector<Step> receive, std::uint16_t to_rank = 1,
                      std::uint32_t to_block = 0) {
  std::vector<Step> p0{st(x, 1, weak)};
  p0.insert(p0.end(), send.begin(), send.end());
  receive.push_back(ld("b", x, weak));
  return on_two_words({{0, 0, p0}, {to_rank, to_block, receive}}).run();
}

const std::set<std::string> kDelivered{"b=1"};

}  // namespace

TEST_CASE("a release sequence goes through read-modify-writes of other threads, relaxed ones too") {
  auto e = on_two_words({{0, 0, {st(x, 1, weak), st(y, 1, rel)}},
                         {1, 0, {atom_add("", y, 1, rlx)}},
                         {2, 0, {await(y, 2, acq), ld("b", x, weak)}}});
  const auto o = e.run();
  CHECK(o.all == kDelivered);
  CHECK(o.findings.empty());
}

TEST_CASE("a release sequence goes through red as well") {
  auto e = on_two_words({{0, 0, {st(x, 1, weak), st(y, 1, rel)}},
                         {1, 0, {red_add(y, 1, rlx)}},
                         {2, 0, {await(y, 2, acq), ld("b", x, weak)}}});
  const auto o = e.run();
  CHECK(o.all == kDelivered);
  CHECK(o.findings.empty());
}

TEST_CASE("a thread that reads its own reduction takes in what that one handed on") {
  // Arrival counter: both add 1 with release, then wait for 2 with acquire.
  auto e = on_two_words({{0, 0, {st(x, 1, weak), red_add(y, 1, rel), await(y, 2, acq)}},
                         {1, 0, {red_add(y, 1, rel), await(y, 2, acq), ld("b", x, weak)}}});
  const auto o = e.run();
  CHECK(o.all == kDelivered);
  CHECK(o.findings.empty());
}

TEST_CASE("a plain store by another thread cuts the release sequence") {
  auto e = on_two_words({{0, 0, {st(x, 1, weak), st(y, 1, rel)}},
                         {1, 0, {await(y, 1, rlx), st(y, 2, rlx)}},
                         {2, 0, {await(y, 2, acq), ld("b", x, weak)}}});
  const auto o = e.run();
  CHECK(o.all == std::set<std::string>{"b=0", "b=1"});
  CHECK(o.findings == std::set{FindingKind::data_race});
}

TEST_CASE("a relaxed store of the releasing thread to the same location carries its release") {
  const auto o = pass_message({st(y, 1, rel), st(y, 2, rlx)}, {await(y, 2, acq)});
  CHECK(o.all == kDelivered);
  CHECK(o.findings.empty());
}

TEST_CASE("red followed by an acquire fence acquires nothing; atom does") {
  const auto f = fence(Machine::Fence::acq_rel);
  // The reduction reads the flag's release but returns nothing (PTX ISA 8.11.1).
  auto by_red = on_two_words({{0, 0, {st(x, 1, weak), st(y, 1, rel)}},
                              {1, 0, {red_add(y, 2, acqrel), f, ld("b", x, weak)}}});
  CHECK(by_red.run().findings.count(FindingKind::data_race) == 1);
  auto by_atom = on_two_words({{0, 0, {st(x, 1, weak), st(y, 1, rel)}},
                               {1, 0, {await_cas(y, 1, 3, rlx), f, ld("b", x, weak)}}});
  const auto o = by_atom.run();
  CHECK(o.all == kDelivered);
  CHECK(o.findings.empty());
}

TEST_CASE("the flag's scope must reach the other thread on both sides") {
  const auto sys_sys = pass_message({st(y, 1, rel)}, {await(y, 1, acq)});
  CHECK(sys_sys.findings.empty());
  CHECK(sys_sys.all == kDelivered);
  const auto gpu_out = pass_message({st(y, 1, rel, Scope::gpu)}, {await(y, 1, acq)});
  CHECK(gpu_out.findings.count(FindingKind::data_race) == 1);
  const auto gpu_in = pass_message({st(y, 1, rel)}, {await(y, 1, acq, Scope::gpu)});
  CHECK(gpu_in.findings.count(FindingKind::data_race) == 1);
  const auto same_gpu =
      pass_message({st(y, 1, rel, Scope::gpu)}, {await(y, 1, acq, Scope::gpu)}, 0, 1);
  CHECK(same_gpu.findings.empty());
  CHECK(same_gpu.all == kDelivered);
  const auto cta = pass_message({st(y, 1, rel, Scope::cta)}, {await(y, 1, acq, Scope::gpu)}, 0, 1);
  CHECK(cta.findings.count(FindingKind::data_race) == 1);
}

TEST_CASE("a race on a flag of too narrow a scope names the side") {
  auto first = on_two_words({{0, 0, {st(y, 1, rlx, Scope::gpu)}}, {1, 0, {ld("a", y, rlx)}}});
  CHECK(first.run().missing == std::set{Missing::first_scope, Missing::second_scope});
  auto none = on_two_words({{0, 0, {st(y, 1, weak)}}, {1, 0, {ld("a", y, rlx)}}});
  CHECK(none.run().missing == std::set{Missing::synchronisation});
}

TEST_CASE("a fence publishes only as far as its own scope, whatever the store's") {
  const auto narrow =
      pass_message({fence(Machine::Fence::acq_rel, Scope::gpu), st(y, 1, rlx)}, {await(y, 1, acq)});
  CHECK(narrow.findings.count(FindingKind::data_race) == 1);
  const auto wide =
      pass_message({fence(Machine::Fence::acq_rel), st(y, 1, rlx)}, {await(y, 1, acq)});
  CHECK(wide.findings.empty());
}

TEST_CASE("an earlier wide fence still counts behind a later narrow one") {
  const auto o = pass_message(
      {fence(Machine::Fence::acq_rel), fence(Machine::Fence::acq_rel, Scope::cta), st(y, 1, rlx)},
      {await(y, 1, acq)});
  CHECK(o.findings.empty());
  CHECK(o.all == kDelivered);
}

TEST_CASE("an acquire fence of too narrow a scope leaves the entry for a wider one") {
  const auto narrow =
      pass_message({st(y, 1, rel)}, {await(y, 1, rlx), fence(Machine::Fence::acq_rel, Scope::gpu)});
  CHECK(narrow.findings.count(FindingKind::data_race) == 1);
  const auto later =
      pass_message({st(y, 1, rel)}, {await(y, 1, rlx), fence(Machine::Fence::acq_rel, Scope::gpu),
                                     fence(Machine::Fence::acq_rel)});
  CHECK(later.findings.empty());
}

TEST_CASE("read-modify-writes lose no increment when morally strong") {
  auto strong =
      on_two_words({{0, 0, {atom_add("a", x, 1, rlx)}}, {1, 0, {atom_add("b", x, 1, rlx)}}});
  CHECK(strong.run().all == std::set<std::string>{"a=0 b=1", "a=1 b=0"});
}

// Atomicity holds between the two although neither is morally strong with what it reads: coherence
// orders the weak write before both of them.
TEST_CASE("read-modify-writes ordered after a weak write do not both read it") {
  const auto after_a_weak_write = [](Order order, Scope scope) {
    return on_two_words({{0, 0, {st(x, 5, weak), st(y, 1, rel)}},
                         {1, 0, {await(y, 1, order), atom_add("a", x, 1, rlx, scope)}},
                         {2, 0, {await(y, 1, order), atom_add("b", x, 1, rlx, scope)}}})
        .run();
  };
  const auto strong = after_a_weak_write(acq, Scope::sys);
  CHECK(strong.findings.empty());
  CHECK(strong.all == std::set<std::string>{"a=5 b=6", "a=6 b=5"});
  CHECK(after_a_weak_write(acq, Scope::gpu).has("a=5 b=5"));
  CHECK(after_a_weak_write(rlx, Scope::sys).findings.count(FindingKind::data_race) == 1);
}

TEST_CASE("read-modify-writes of too narrow a scope may both read the same value: a lost signal") {
  Explorer e;
  e.regions = {word(0, RegionKind::signal), word(1)};
  e.threads = {{0, 0, {atom_add("a", x, 1, rlx, Scope::gpu)}},
               {1, 0, {atom_add("b", x, 1, rlx, Scope::gpu)}}};
  const auto o = e.run();
  CHECK(o.has("a=0 b=0"));
  CHECK(o.findings.count(FindingKind::lost_signal) == 1);
  CHECK(o.findings.count(FindingKind::data_race) == 1);
}

TEST_CASE("a plain reset that overwrites a signal nobody waited for is a lost signal") {
  Explorer e;
  e.regions = {word(0, RegionKind::signal), word(1)};
  e.threads = {{0, 0, {st(x, 1, rlx)}}, {1, 0, {st(x, 0, rlx)}}};
  CHECK(e.run().findings == std::set{FindingKind::lost_signal});
  e.threads = {{0, 0, {st(x, 1, rlx)}}, {1, 0, {await(x, 1, acq), st(x, 0, rlx)}}};
  CHECK(e.run().findings.empty());
}

TEST_CASE("compare-and-swap: one of two contenders wins, and the loser sees the winner") {
  auto e = on_two_words({{0, 0, {cas("a", x, 0, 1, rlx)}}, {1, 0, {cas("b", x, 0, 2, rlx)}}});
  CHECK(e.run().all == std::set<std::string>{"a=0 b=1", "a=2 b=0"});
}

TEST_CASE("a failed compare-and-swap acquires but releases nothing") {
  const auto o = pass_message({st(y, 1, rel)}, {await(y, 1, rlx), cas("c", y, 7, 8, acqrel)});
  CHECK(o.findings.empty());
  CHECK(o.all == std::set<std::string>{"b=1 c=1"});
}

TEST_CASE("CAS slot barrier: put release, wait acquire orders the data; relaxed ones do not") {
  const auto ra = pass_message({await_cas(y, 0, 1, rel)}, {await_cas(y, 1, 0, acq)});
  CHECK(ra.findings.empty());
  CHECK(ra.all == kDelivered);
  const auto rr = pass_message({await_cas(y, 0, 1, rlx)}, {await_cas(y, 1, 0, rlx)});
  CHECK(rr.findings.count(FindingKind::data_race) == 1);
  CHECK(rr.missing.count(Missing::strength) == 1);
  CHECK(rr.all == std::set<std::string>{"b=0", "b=1"});
}

TEST_CASE("a wait that no message can satisfy blocks and is not explored as a loop") {
  auto e = on_two_words({{0, 0, {st(y, 2, rlx)}}, {1, 0, {await(y, 1, acq)}}});
  const auto o = e.run();
  CHECK(o.all.empty());
  CHECK(o.blocked == o.executions);
  CHECK(o.executions <= 4);
}

TEST_CASE("a poll may miss the value that it waits for once a newer one is there") {
  auto e = on_two_words({{0, 0, {st(y, 1, rlx), st(y, 2, rlx)}}, {1, 0, {await(y, 1, acq)}}});
  const auto o = e.run();
  CHECK(o.blocked > 0);
  CHECK_FALSE(o.all.empty());
}

// -- bar.sync -------------------------------------------------------------------------------------

namespace {

// Two threads of rank 0, block 0 meet in bar.sync after the first's `before`; then the second runs
// `then`. A thread of rank 1 runs `other`.
Outcomes across_a_block_barrier(std::vector<Step> before, std::vector<Step> then,
                                std::vector<Step> other) {
  // The barrier is one step of the thread that comes last; the other waits for it.
  struct Meeting {
    std::uint32_t steps = ~0u;
    std::vector<ThreadId> ids;
    bool done = false;
  };
  auto meeting = std::make_shared<Meeting>();
  const auto arrive = [=](Machine& m, ThreadId t, Registers& r) {
    // A new run starts with no register set and nothing arrived.
    if (r.get("in") == 0) *meeting = Meeting{};
    if (std::find(meeting->ids.begin(), meeting->ids.end(), t) == meeting->ids.end()) {
      meeting->ids.push_back(t);
      r.set("in", meeting->ids.size());
      if (meeting->ids.size() == 2) {
        m.barrier(meeting->ids, meeting->ids, true);
        meeting->done = true;
      }
    }
    return meeting->done;
  };
  before.push_back(arrive);
  std::vector<Step> second{arrive};
  second.insert(second.end(), then.begin(), then.end());
  return on_two_words({{0, 0, before}, {0, 0, second}, {1, 0, other}}).run();
}

}  // namespace

TEST_CASE(
    "bar.sync is cumulative: a release after it covers what the block's others wrote before") {
  const auto o = across_a_block_barrier({st(x, 1, weak)}, {st(y, 1, rel)},
                                        {await(y, 1, acq), ld("b", x, weak)});
  CHECK(o.all == std::set<std::string>{"b=1 in=2"});
  CHECK(o.findings.empty());
}

TEST_CASE("bar.sync does not hand on a fence: fence, bar.sync, relaxed store is no release") {
  const auto f = fence(Machine::Fence::acq_rel);
  const auto o = across_a_block_barrier({st(x, 1, weak), f}, {st(y, 1, rlx)},
                                        {await(y, 1, acq), ld("b", x, weak)});
  CHECK(o.findings.count(FindingKind::data_race) == 1);
  const auto fixed = across_a_block_barrier({st(x, 1, weak)}, {f, st(y, 1, rlx)},
                                            {await(y, 1, acq), ld("b", x, weak)});
  CHECK(fixed.findings.empty());
}

TEST_CASE("a put before the block barrier publishes only its own thread's writes") {
  // The second thread signals without having met the first.
  Explorer e = on_two_words({{0, 0, {st(x, 1, weak)}},
                             {0, 0, {st(y, 1, rel)}},
                             {1, 0, {await(y, 1, acq), ld("b", x, weak)}}});
  CHECK(e.run().findings.count(FindingKind::data_race) == 1);
}

namespace {

// The first thread counts for a barrier and goes on: it writes before it, or after it. The second
// one waits there and reads.
bool races_across_an_arrival(bool write_first) {
  Machine m(std::pmr::new_delete_resource(), Policy{Boundary::strict});
  RegionSpec spec;
  spec.bytes = 64;
  const RegionId region = m.add_region(spec);
  const StreamId stream = m.add_stream(0);
  m.begin_launch(stream);
  const ThreadId a = m.launch_thread(stream, 0, 0, 1), b = m.launch_thread(stream, 0, 1, 2);
  Access weak_access;
  weak_access.order = Order::weak;
  const std::uint32_t one = 1;
  const auto write = [&] {
    m.write(a, {region, 0}, weak_access, std::as_bytes(std::span(&one, 1)));
  };
  if (write_first) write();
  const Machine::Arrival arrival = m.arrive(a);
  if (!write_first) write();
  const ThreadId both[] = {a, b};
  m.barrier(both, std::span(&both[1], 1), false, 0, std::span(&arrival, 1));
  std::uint32_t got = 0;
  struct Newest : Chooser {
    std::uint32_t choose(Choice, ThreadId, std::uint32_t) override { return 0; }
  } newest;
  m.set_chooser(&newest);
  m.read(b, {region, 0}, weak_access, std::as_writable_bytes(std::span(&got, 1)));
  return m.failed() && m.findings().front().kind == FindingKind::data_race;
}

}  // namespace

TEST_CASE("bar.arrive hands on what its thread did before it, and not what it did after it") {
  CHECK_FALSE(races_across_an_arrival(true));
  CHECK(races_across_an_arrival(false));
}

TEST_CASE("a thread that joins a block late is not known by what was known of the first one") {
  // One thread in its block: clocks take the block for it. Then the block gets a second one.
  struct Newest : Chooser {
    std::uint32_t choose(Choice, ThreadId, std::uint32_t) override { return 0; }
  } newest;
  Machine m(std::pmr::new_delete_resource(), Policy{Boundary::strict});
  m.set_chooser(&newest);
  RegionSpec spec;
  spec.bytes = 64;
  const RegionId region = m.add_region(spec);
  const StreamId here = m.add_stream(0), there = m.add_stream(1);
  m.begin_launch(here);
  m.begin_launch(there);
  const auto as = [](Order order) {
    Access a;
    a.order = order;
    return a;
  };
  const std::uint32_t one = 1;
  std::uint32_t got = 0;
  const auto in = std::as_bytes(std::span(&one, 1));
  const auto out = std::as_writable_bytes(std::span(&got, 1));
  const ThreadId first = m.launch_thread(here, 0, 0, 1);
  const ThreadId reader = m.launch_thread(there, 0, 0, 3);
  m.write(first, {region, 0}, as(Order::weak), in);
  m.write(first, {region, 16}, as(Order::release), in);
  m.read(reader, {region, 16}, as(Order::acquire), out);
  m.read(reader, {region, 0}, as(Order::weak), out);
  CHECK_FALSE(m.failed());
  const ThreadId late = m.launch_thread(here, 0, 1, 2);
  m.write(late, {region, 32}, as(Order::weak), in);
  m.read(reader, {region, 32}, as(Order::weak), out);
  REQUIRE(m.failed());
  CHECK(m.findings().front().kind == FindingKind::data_race);
}

// -- the rarer halves of the rules ----------------------------------------------------------------

TEST_CASE(
    "an acquire's scope must reach the thread that released, not only the writer it read from") {
  const auto through_rmw = [](Scope wait) {
    auto e = on_two_words({{0, 0, {st(x, 1, weak), st(y, 1, rel)}},
                           {1, 0, {atom_add("", y, 1, rlx)}},
                           {1, 1, {await(y, 2, acq, wait), ld("b", x, weak)}}});
    return e.run();
  };
  CHECK(through_rmw(Scope::sys).findings.empty());
  CHECK(through_rmw(Scope::gpu).has("b=0"));
  CHECK(through_rmw(Scope::gpu).findings.count(FindingKind::data_race) == 1);
}

TEST_CASE("a read-modify-write hands on a release only if it is morally strong with it") {
  const auto middle = [](Scope s) {
    auto e = on_two_words({{0, 0, {st(x, 1, weak), st(y, 1, rel)}},
                           {1, 0, {atom_add("", y, 1, rlx, s)}},
                           {1, 1, {await(y, 2, acq), ld("b", x, weak)}}});
    return e.run();
  };
  CHECK_FALSE(middle(Scope::sys).has("b=0"));
  CHECK(middle(Scope::gpu).has("b=0"));
}

TEST_CASE("observation reaches back through read-modify-writes: no race with what they took over") {
  Explorer e;
  e.regions = {word(0), word(1), word(2)};
  const Address z{2, 0};
  e.threads = {{0, 0, {st(y, 1, rlx)}},
               {1, 0, {await_cas(y, 1, 2, rlx)}},
               {2, 0, {await(y, 2, rlx), st(z, 1, rel)}},
               {3, 0, {await(z, 1, acq), ld("b", y, weak)}}};
  const auto o = e.run();
  CHECK(o.findings.empty());
  CHECK(o.all == std::set<std::string>{"b=2"});
}

TEST_CASE("a read does not hide another block's earlier one from a write of narrower scope") {
  // Rank 1's read is before rank 0's in causality. The write is morally strong with rank 0's read
  // alone, and follows it by a relaxed signal, which orders neither.
  const auto race = [](bool rank0_reads, Scope write) {
    Explorer e;
    e.regions = {word(0), word(1), word(2)};
    const Address z{2, 0};
    std::vector<Step> between{await(y, 1, acq), st(z, 1, rlx)};
    if (rank0_reads) between.insert(between.begin() + 1, ld("", x, rlx));
    e.threads = {{1, 0, {ld("", x, rlx), st(y, 1, rel)}},
                 {0, 0, between},
                 {0, 1, {await(z, 1, rlx), st(x, 1, rlx, write)}}};
    return e.run().findings.count(FindingKind::data_race) == 1;
  };
  CHECK(race(false, Scope::gpu));
  CHECK(race(true, Scope::gpu));
  CHECK_FALSE(race(true, Scope::sys));
}

TEST_CASE("what follows a release is not published by it") {
  auto e = on_two_words(
      {{0, 0, {st(y, 1, rel), st(x, 1, weak)}}, {1, 0, {await(y, 1, acq), ld("b", x, weak)}}});
  const auto o = e.run();
  CHECK(o.findings == std::set{FindingKind::data_race});
  CHECK(o.all == std::set<std::string>{"b=0", "b=1"});
}

TEST_CASE("an acquire read of another location completes no pattern of this one") {
  Explorer e;
  e.regions = {word(0), word(1), word(2)};
  const Address z{2, 0};
  e.threads = {{0, 0, {st(x, 1, weak), st(y, 1, rel)}},
               {2, 0, {st(z, 1, rlx)}},
               {1, 0, {await(y, 1, rlx), await(z, 1, acq), ld("b", x, weak)}}};
  CHECK(e.run().findings == std::set{FindingKind::data_race});
}

TEST_CASE("no write lands between a read-modify-write and what it read") {
  auto e = on_two_words({{0, 0, {atom_add("o", x, 1, rlx)}},
                         {1, 0, {st(x, 5, rlx)}},
                         {2, 0, {ld("a", x, rlx), ld("b", x, rlx)}}});
  const auto o = e.run();
  CHECK_FALSE(o.has("a=5 b=1 o=0"));
  CHECK(o.has("a=1 b=5 o=0"));
  CHECK(o.has("a=5 b=6 o=5"));
}

namespace {

// One run, step by step in the order written, each thread on its own rank.
struct InOrder : Chooser {
  InOrder() : m(std::pmr::new_delete_resource(), Policy{Boundary::strict}) {
    m.set_chooser(this);
    for (std::uint16_t r = 0; r < 3; ++r) {
      m.add_region(word(r));
      const StreamId s = m.add_stream(r);
      m.begin_launch(s);
      t[r] = m.launch_thread(s, 0, 0, r);
    }
  }
  std::uint32_t choose(Choice, ThreadId, std::uint32_t) override { return 0; }
  void step(int thread, const Step& s) { REQUIRE(s(m, t[thread], regs)); }
  Machine m;
  ThreadId t[3];
  Registers regs;
};

}  // namespace

TEST_CASE("in one run: red reads a release and still acquires nothing") {
  InOrder r;
  r.step(0, st(x, 1, weak));
  r.step(0, st(y, 1, rel));
  r.step(1, red_add(y, 2, acqrel));
  r.step(1, fence(Machine::Fence::acq_rel));
  CHECK_FALSE(r.m.failed());
  r.step(1, ld("b", x, weak));
  CHECK(r.m.failed());
}

TEST_CASE("in one run: an acquire read of a thread's own red takes in what the red took over") {
  InOrder r;
  r.step(0, st(x, 1, weak));
  r.step(0, st(y, 1, rel));
  r.step(1, red_add(y, 1, rlx));
  r.step(1, await(y, 2, acq));
  r.step(1, ld("b", x, weak));
  CHECK_FALSE(r.m.failed());
}

TEST_CASE("in one run: a weak read stays on record behind an ordered strong write") {
  InOrder r;
  r.step(0, ld("a", x, weak));
  r.step(0, st(y, 1, rel));
  r.step(1, await(y, 1, acq));
  r.step(1, st(x, 1, rlx));
  CHECK_FALSE(r.m.failed());
  r.step(2, st(x, 2, rlx));  // morally strong with the write, unordered with the weak read
  REQUIRE(r.m.failed());
  CHECK(r.m.findings()[0].first.kind == AccessKind::read);
  CHECK(r.m.findings()[0].first.label == 0);
  CHECK(r.m.findings()[0].second.label == 2);
}

TEST_CASE("in one run: a write that follows a release in program order is not part of it") {
  InOrder r;
  r.step(0, st(y, 1, rel));
  r.step(0, st(x, 1, weak));
  r.step(1, await(y, 1, acq));
  r.step(1, ld("b", x, weak));
  CHECK(r.m.failed());
}

// Kernel boundaries in the three modes, and multimem over replicas.

#include "tests/machine/explore.hpp"

using namespace ringfence::machine;
using namespace ringfence::machine::test;

namespace {

constexpr Order weak = Order::weak, rlx = Order::relaxed, acq = Order::acquire,
                rel = Order::release;

Access acc(Order o, std::uint8_t element = 4, Proxy proxy = Proxy::generic) {
  Access a;
  a.order = o;
  a.element = element;
  a.proxy = proxy;
  return a;
}

// Rank 0 writes data in one launch; its next launch signals with `put`. Rank 1's launch waits with
// `wait` and reads the data with `load`, and its next launch reads it weakly.
struct TwoLaunches : Chooser {
  std::uint32_t choose(Choice, ThreadId, std::uint32_t options) override { return options - 1; }

  // Takes the oldest answer everywhere: the worst run that the mode still allows.
  std::pair<std::uint32_t, std::uint32_t> run(Boundary b, Order put, Order wait, Order load,
                                              std::set<FindingKind>& findings) {
    Policy policy;
    policy.boundary = b;
    Machine m(std::pmr::new_delete_resource(), policy);
    m.set_chooser(this);
    const RegionId data = m.add_region(word(0)), pad = m.add_region(word(1, RegionKind::signal));
    const StreamId s0 = m.add_stream(0), s1 = m.add_stream(1);
    const std::uint32_t one = 1;
    m.begin_launch(s0);
    ThreadId t = m.launch_thread(s0, 0, 0, 1);
    m.write(t, {data, 0}, acc(weak), std::as_bytes(std::span(&one, 1)));
    m.end_thread(t);
    m.end_launch(s0);
    m.begin_launch(s0);
    t = m.launch_thread(s0, 0, 0, 2);
    CHECK(m.try_cas_until(t, {pad, 0}, acc(put), 0, 1).has_value());
    m.end_thread(t);
    m.end_launch(s0);

    std::uint32_t first = 9, second = 9;
    m.begin_launch(s1);
    t = m.launch_thread(s1, 0, 0, 3);
    CHECK(m.try_cas_until(t, {pad, 0}, acc(wait), 1, 0).has_value());
    m.read(t, {data, 0}, acc(load), std::as_writable_bytes(std::span(&first, 1)));
    m.end_thread(t);
    m.end_launch(s1);
    for (const Finding& f : m.findings()) findings.insert(f.kind);
    m.begin_launch(s1);
    t = m.launch_thread(s1, 0, 0, 4);
    m.read(t, {data, 0}, acc(weak), std::as_writable_bytes(std::span(&second, 1)));
    m.end_thread(t);
    m.end_launch(s1);
    return {first, second};
  }
};

struct Result {
  std::uint32_t in_kernel, in_next_kernel;
  bool race;
};

Result run(Boundary b, Order put, Order wait, Order load) {
  std::set<FindingKind> f;
  TwoLaunches t;
  const auto [first, second] = t.run(b, put, wait, load, f);
  return {first, second, f.count(FindingKind::data_race) != 0};
}

}  // namespace

TEST_CASE("strict: an earlier launch's write needs release and acquire to reach another rank") {
  CHECK(run(Boundary::strict, rel, acq, weak).in_kernel == 1);
  CHECK_FALSE(run(Boundary::strict, rel, acq, weak).race);
  CHECK(run(Boundary::strict, rlx, acq, weak).race);
  CHECK(run(Boundary::strict, rlx, acq, weak).in_kernel == 0);
  CHECK(run(Boundary::strict, rel, rlx, weak).race);
}

TEST_CASE("stream: a relaxed put at a kernel's start carries what earlier launches wrote") {
  CHECK_FALSE(run(Boundary::stream, rlx, acq, weak).race);
  CHECK(run(Boundary::stream, rlx, acq, weak).in_kernel == 1);
}

TEST_CASE("stream: a relaxed wait acquires at the kernel's end only") {
  const auto r = run(Boundary::stream, rlx, rlx, weak);
  CHECK(r.race);
  CHECK(r.in_kernel == 0);
  CHECK(r.in_next_kernel == 1);
}

TEST_CASE("coherent: a strong sys read after a relaxed barrier is no race and is the newest") {
  const auto r = run(Boundary::coherent, rlx, rlx, rlx);
  CHECK_FALSE(r.race);
  CHECK(r.in_kernel == 1);
  CHECK(run(Boundary::stream, rlx, rlx, rlx).race);
}

TEST_CASE("coherent: a weak read after a relaxed barrier still races") {
  CHECK(run(Boundary::coherent, rlx, rlx, weak).race);
}

TEST_CASE("coherent: a weak write of the same launch is not excused, one of an earlier launch is") {
  for (const bool boundary_between : {false, true}) {
    Policy policy;
    policy.boundary = Boundary::coherent;
    Machine m(std::pmr::new_delete_resource(), policy);
    const RegionId data = m.add_region(word(0)), pad = m.add_region(word(1));
    const StreamId s0 = m.add_stream(0), s1 = m.add_stream(1);
    const std::uint32_t one = 1;
    std::uint32_t got = 0;
    m.begin_launch(s0);
    ThreadId t = m.launch_thread(s0, 0, 0, 1);
    m.write(t, {data, 0}, acc(weak), std::as_bytes(std::span(&one, 1)));
    if (boundary_between) {
      m.end_thread(t);
      m.end_launch(s0);
      m.begin_launch(s0);
      t = m.launch_thread(s0, 0, 0, 2);
    }
    m.write(t, {pad, 0}, acc(rlx), std::as_bytes(std::span(&one, 1)));
    m.begin_launch(s1);
    const ThreadId u = m.launch_thread(s1, 0, 0, 3);
    m.read(u, {pad, 0}, acc(rlx), std::as_writable_bytes(std::span(&got, 1)));
    m.read(u, {data, 0}, acc(rlx), std::as_writable_bytes(std::span(&got, 1)));
    CHECK(got == 1);
    CHECK(m.failed() == !boundary_between);
  }
}

TEST_CASE("a multimem store is one write per replica, without order between replicas") {
  // Rank 0 stores to both replicas by one multimem.st; readers of the two may disagree on time.
  Explorer e;
  e.regions = {word(0), word(1)};
  const Step both = [](Machine& m, ThreadId t, Registers&) {
    const std::uint32_t one = 1;
    for (RegionId r : {0u, 1u}) {
      m.write(t, {r, 0}, acc(rlx, 4, Proxy::multicast), std::as_bytes(std::span(&one, 1)));
    }
    return true;
  };
  e.threads = {{0, 0, {both}},
               {1, 0, {ld("a", {1, 0}, rlx), ld("b", {0, 0}, rlx)}},
               {2, 0, {ld("c", {0, 0}, rlx), ld("d", {1, 0}, rlx)}}};
  const auto o = e.run();
  CHECK(o.has("a=1 b=0 c=1 d=0"));
  CHECK(o.findings.empty());
}

TEST_CASE("multicast-flag=strict: a flag through its multicast address does not synchronise") {
  for (const auto flag : {MulticastFlag::cohere, MulticastFlag::strict}) {
    Explorer e;
    e.policy.multicast_flag = flag;
    e.regions = {word(0), word(1)};
    const Step signal = [](Machine& m, ThreadId t, Registers&) {
      const std::uint32_t one = 1;
      m.reduce(t, {1, 0}, acc(rel, 4, Proxy::multicast), std::as_bytes(std::span(&one, 1)), add);
      return true;
    };
    e.threads = {{0, 0, {st({0, 0}, 1, weak), signal}},
                 {1, 0, {await({1, 0}, 1, acq), ld("b", {0, 0}, weak)}}};
    const auto o = e.run();
    CHECK(o.findings.empty() == (flag == MulticastFlag::cohere));
  }
}

namespace {

// Rank 0 writes `data` as `first` says and puts a relaxed flag, all in one launch; that launch ends
// before rank 1 sees the flag and reads `data` as `second` says.
bool races(Boundary b, Access first, Access second, bool flag_from_next_launch) {
  Policy policy;
  policy.boundary = b;
  Machine m(std::pmr::new_delete_resource(), policy);
  const RegionId data = m.add_region(word(0)), pad = m.add_region(word(1));
  const StreamId s0 = m.add_stream(0), s1 = m.add_stream(1);
  const std::uint32_t one = 1;
  std::uint32_t got = 0;
  m.begin_launch(s0);
  ThreadId t = m.launch_thread(s0, 0, 0, 1);
  m.write(t, {data, 0}, first, std::as_bytes(std::span(&one, 1)));
  if (!flag_from_next_launch) {
    m.write(t, {pad, 0}, acc(rlx), std::as_bytes(std::span(&one, 1)));
  }
  m.end_thread(t);
  m.end_launch(s0);
  if (flag_from_next_launch) {
    m.begin_launch(s0);
    t = m.launch_thread(s0, 0, 0, 2);
    m.write(t, {pad, 0}, acc(rlx), std::as_bytes(std::span(&one, 1)));
  }
  m.begin_launch(s1);
  const ThreadId u = m.launch_thread(s1, 0, 0, 3);
  struct Newest : Chooser {
    std::uint32_t choose(Choice, ThreadId, std::uint32_t) override { return 0; }
  } newest;
  m.set_chooser(&newest);
  m.read(u, {pad, 0}, acc(rlx), std::as_writable_bytes(std::span(&got, 1)));
  CHECK(got == 1);
  m.read(u, {data, 0}, second, std::as_writable_bytes(std::span(&got, 1)));
  return m.failed();
}

}  // namespace

TEST_CASE("coherent: the launch boundary must lie between in observed time, not only in time") {
  CHECK(races(Boundary::coherent, acc(weak), acc(rlx), false));
  CHECK_FALSE(races(Boundary::coherent, acc(weak), acc(rlx), true));
}

TEST_CASE("coherent: observed time passes through a reduction") {
  Policy policy;
  policy.boundary = Boundary::coherent;
  Machine m(std::pmr::new_delete_resource(), policy);
  const RegionId data = m.add_region(word(0)), pad = m.add_region(word(1));
  const StreamId s0 = m.add_stream(0), s1 = m.add_stream(1);
  const std::uint32_t one = 1;
  std::uint32_t got = 0;
  m.begin_launch(s0);
  ThreadId t = m.launch_thread(s0, 0, 0, 1);
  m.write(t, {data, 0}, acc(weak), std::as_bytes(std::span(&one, 1)));
  m.end_thread(t);
  m.end_launch(s0);
  m.begin_launch(s0);
  t = m.launch_thread(s0, 0, 0, 2);
  m.write(t, {pad, 0}, acc(rlx), std::as_bytes(std::span(&one, 1)));
  m.begin_launch(s1);
  const ThreadId u = m.launch_thread(s1, 0, 0, 3);
  m.reduce(u, {pad, 0}, acc(rlx), std::as_bytes(std::span(&one, 1)), add);
  m.read(u, {data, 0}, acc(rlx), std::as_writable_bytes(std::span(&got, 1)));
  CHECK(got == 1);
  CHECK_FALSE(m.failed());
}

TEST_CASE("coherent: two strong sys accesses of different sizes, observed in order, are no race") {
  CHECK_FALSE(races(Boundary::coherent, acc(rlx, 4), acc(rlx, 2), false));
  CHECK(races(Boundary::stream, acc(rlx, 4), acc(rlx, 2), false));
  Access gpu = acc(rlx, 4);
  gpu.scope = Scope::gpu;
  CHECK(races(Boundary::coherent, gpu, acc(rlx, 2), false));
}

TEST_CASE("a strong read that reaches the output and misses an observed write is a stale read") {
  for (const bool reaches_output : {true, false}) {
    Policy policy;
    policy.boundary = Boundary::stream;
    Machine m(std::pmr::new_delete_resource(), policy);
    struct Oldest : Chooser {
      std::uint32_t choose(Choice, ThreadId, std::uint32_t options) override { return options - 1; }
    } oldest;
    m.set_chooser(&oldest);
    m.ignore(FindingKind::data_race);
    const RegionId data = m.add_region(word(0)), pad = m.add_region(word(1));
    const StreamId s0 = m.add_stream(0), s1 = m.add_stream(1);
    const std::uint32_t one = 1;
    std::uint32_t got = 9;
    m.begin_launch(s0);
    const ThreadId t = m.launch_thread(s0, 0, 0, 1);
    m.write(t, {data, 0}, acc(weak), std::as_bytes(std::span(&one, 1)));
    m.write(t, {pad, 0}, acc(rlx), std::as_bytes(std::span(&one, 1)));
    m.begin_launch(s1);
    const ThreadId u = m.launch_thread(s1, 0, 0, 2);
    CHECK(m.try_read_until(u, {pad, 0}, acc(rlx), Wanted{Compare::eq, 1}).has_value());
    Access load = acc(rlx);
    load.reaches_output = reaches_output;
    m.read(u, {data, 0}, load, std::as_writable_bytes(std::span(&got, 1)));
    CHECK(got == 0);
    REQUIRE(m.findings().size() == (reaches_output ? 1 : 0));
    if (reaches_output) CHECK(m.findings()[0].kind == FindingKind::stale_read);
  }
}

TEST_CASE(
    "alias-data=fence-required: data through another alias needs an alias fence on the path") {
  struct Case {
    bool fence_before_release, fence_after_acquire;
    AliasData policy;
    bool race;
  };
  for (const Case c : {Case{false, false, AliasData::cohere, false},
                       Case{false, false, AliasData::fence_required, true},
                       Case{true, false, AliasData::fence_required, false},
                       Case{false, true, AliasData::fence_required, false}}) {
    Policy policy;
    policy.boundary = Boundary::strict;
    policy.alias_data = c.policy;
    Machine m(std::pmr::new_delete_resource(), policy);
    const RegionId data = m.add_region(word(0)), pad = m.add_region(word(1));
    const std::uint32_t one = 1;
    std::uint32_t got = 0;
    const StreamId s0 = m.add_stream(0), s1 = m.add_stream(1);
    m.begin_launch(s0);
    m.begin_launch(s1);
    const ThreadId t = m.launch_thread(s0, 0, 0, 1), u = m.launch_thread(s1, 0, 0, 2);
    m.write(t, {data, 0}, acc(weak, 4, Proxy::multicast), std::as_bytes(std::span(&one, 1)));
    if (c.fence_before_release) m.alias_fence(t);
    m.write(t, {pad, 0}, acc(rel), std::as_bytes(std::span(&one, 1)));
    CHECK(m.try_read_until(u, {pad, 0}, acc(acq), Wanted{Compare::eq, 1}).has_value());
    if (c.fence_after_acquire) m.alias_fence(u);
    TwoLaunches oldest;
    m.set_chooser(&oldest);
    m.read(u, {data, 0}, acc(weak), std::as_writable_bytes(std::span(&got, 1)));
    CHECK(m.failed() == c.race);
    CHECK(got == (c.race ? 0 : 1));
  }
}

// API synchronization (PTX ISA 8.9.4) carries across proxies; a barrier of one launch does not.
TEST_CASE("alias-data=fence-required: the end of a launch carries data to other aliases") {
  for (const bool one_launch : {false, true}) {
    Policy policy;
    policy.boundary = Boundary::strict;
    policy.alias_data = AliasData::fence_required;
    Machine m(std::pmr::new_delete_resource(), policy);
    const RegionId data = m.add_region(word(0));
    const std::uint32_t one = 1;
    std::uint32_t got = 9;
    const StreamId s = m.add_stream(0);
    m.begin_launch(s);
    const ThreadId t = m.launch_thread(s, 0, 0, 1);
    const ThreadId beside = m.launch_thread(s, 0, 1, 2);
    m.write(t, {data, 0}, acc(weak, 4, Proxy::multicast), std::as_bytes(std::span(&one, 1)));
    const ThreadId both[] = {t, beside};
    m.barrier(both, both, true);
    ThreadId u = beside;
    if (!one_launch) {
      m.end_thread(t);
      m.end_thread(beside);
      m.end_launch(s);
      m.begin_launch(s);
      u = m.launch_thread(s, 0, 0, 3);
    }
    TwoLaunches oldest;
    m.set_chooser(&oldest);
    m.read(u, {data, 0}, acc(weak), std::as_writable_bytes(std::span(&got, 1)));
    CHECK(m.failed() == one_launch);
    CHECK(got == (one_launch ? 0 : 1));
  }
}

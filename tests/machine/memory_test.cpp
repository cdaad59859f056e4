// Locations: sizes, ranges, initial content, forgetting.

#include <array>
#include <cstring>

#include "tests/machine/explore.hpp"

using namespace ringfence::machine;
using namespace ringfence::machine::test;

namespace {

struct Newest : Chooser {
  std::uint32_t choose(Choice, ThreadId, std::uint32_t) override { return 0; }
};

Access acc(Order o, std::uint8_t element) {
  Access a;
  a.order = o;
  a.element = element;
  return a;
}

struct OneThread {
  explicit OneThread(std::uint64_t bytes, bool initialised = true, Boundary b = Boundary::strict)
      : m(std::pmr::new_delete_resource(), Policy{b}) {
    m.set_chooser(&newest);
    RegionSpec r;
    r.bytes = bytes;
    r.initialised = initialised;
    region = m.add_region(r);
    stream = m.add_stream(0);
    m.begin_launch(stream);
    t = m.launch_thread(stream, 0, 0, 42);
  }
  Newest newest;
  Machine m;
  RegionId region;
  StreamId stream;
  ThreadId t;
};

}  // namespace

TEST_CASE("halves written one by one are read back by one 16-byte access") {
  OneThread o(64);
  for (std::uint16_t i = 0; i < 8; ++i) {
    const std::uint16_t v = static_cast<std::uint16_t>(100 + i);
    o.m.write(o.t, {o.region, 16u + 2u * i}, acc(Order::weak, 2), std::as_bytes(std::span(&v, 1)));
  }
  std::array<std::uint16_t, 8> got{};
  o.m.read(o.t, {o.region, 16}, acc(Order::weak, 2), std::as_writable_bytes(std::span(got)));
  for (std::uint16_t i = 0; i < 8; ++i) CHECK(got[i] == 100 + i);
  CHECK_FALSE(o.m.failed());
}

TEST_CASE("a word written over bytes that were accessed in halves is written whole") {
  for (const bool reads : {true, false}) {
    OneThread o(64);
    std::array<std::uint16_t, 2> half{1, 2};
    const auto halves = acc(Order::weak, 2);
    if (reads) {
      o.m.read(o.t, {o.region, 4}, halves, std::as_writable_bytes(std::span(half)));
    } else {
      o.m.write(o.t, {o.region, 4}, halves, std::as_bytes(std::span(half)));
    }
    const std::uint32_t word = 0x12345678;
    o.m.write(o.t, {o.region, 4}, acc(Order::weak, 4), std::as_bytes(std::span(&word, 1)));
    std::uint32_t got = 0;
    o.m.peek({o.region, 4}, std::as_writable_bytes(std::span(&got, 1)));
    CHECK(got == word);
    CHECK_FALSE(o.m.failed());
  }
}

TEST_CASE("a span over several lines, not aligned to them, is written and read whole") {
  OneThread o(128);
  std::array<std::uint32_t, 13> in{}, got{};
  for (std::uint32_t i = 0; i < in.size(); ++i) in[i] = i * i + 1;
  o.m.write(o.t, {o.region, 8}, acc(Order::weak, 4), std::as_bytes(std::span(in)));
  o.m.read(o.t, {o.region, 8}, acc(Order::weak, 4), std::as_writable_bytes(std::span(got)));
  CHECK(got == in);
  std::array<std::byte, 128> all{};
  o.m.peek({o.region, 0}, all);
  CHECK(std::memcmp(&all[8], in.data(), sizeof(in)) == 0);
  CHECK(all[7] == std::byte{0});
}

TEST_CASE("an access beyond its region and one across its elements are findings, not accesses") {
  OneThread o(32);
  const std::uint32_t v = 1;
  o.m.write(o.t, {o.region, 32}, acc(Order::weak, 4), std::as_bytes(std::span(&v, 1)));
  REQUIRE(o.m.findings().size() == 1);
  CHECK(o.m.findings()[0].kind == FindingKind::out_of_bounds);
  CHECK(o.m.findings()[0].second.label == 42);
  o.m.write(o.t, {o.region, ~std::uint64_t{0} - 3}, acc(Order::weak, 4),
            std::as_bytes(std::span(&v, 1)));
  CHECK(o.m.findings()[1].kind == FindingKind::out_of_bounds);
  o.m.write(o.t, {o.region, 2}, acc(Order::weak, 4), std::as_bytes(std::span(&v, 1)));
  CHECK(o.m.findings()[2].kind == FindingKind::misaligned);
}

TEST_CASE("reading what nobody wrote is a finding in a region without initial content") {
  OneThread o(32, false);
  std::uint32_t v = 1;
  o.m.write(o.t, {o.region, 0}, acc(Order::weak, 4), std::as_bytes(std::span(&v, 1)));
  o.m.read(o.t, {o.region, 0}, acc(Order::weak, 4), std::as_writable_bytes(std::span(&v, 1)));
  CHECK_FALSE(o.m.failed());
  o.m.read(o.t, {o.region, 4}, acc(Order::weak, 4), std::as_writable_bytes(std::span(&v, 1)));
  REQUIRE(o.m.findings().size() == 1);
  CHECK(o.m.findings()[0].kind == FindingKind::uninitialised_read);
}

TEST_CASE("an ignored kind of finding is passed over and the run goes on") {
  OneThread o(32);
  o.m.ignore(FindingKind::misaligned);
  std::uint32_t v = 1;
  o.m.write(o.t, {o.region, 2}, acc(Order::weak, 4), std::as_bytes(std::span(&v, 1)));
  CHECK_FALSE(o.m.failed());
}

TEST_CASE("reset restores initial content and forgets threads, messages and findings") {
  OneThread o(64);
  const std::uint32_t seven = 7, one = 1;
  o.m.reset();
  o.m.set_initial({o.region, 4}, std::as_bytes(std::span(&seven, 1)));
  for (int round = 0; round < 2; ++round) {
    const StreamId s = o.m.add_stream(0);
    o.m.begin_launch(s);
    const ThreadId t = o.m.launch_thread(s, 0, 0, 1);
    std::uint32_t got = 0;
    o.m.read(t, {o.region, 4}, acc(Order::weak, 4), std::as_writable_bytes(std::span(&got, 1)));
    CHECK(got == 7);
    o.m.write(t, {o.region, 4}, acc(Order::weak, 4), std::as_bytes(std::span(&one, 1)));
    o.m.write(t, {o.region, 99}, acc(Order::weak, 1), std::as_bytes(std::span(&one, 1)).first(1));
    CHECK(o.m.failed());
    o.m.reset();
    CHECK(o.m.messages() == 0);
    CHECK_FALSE(o.m.failed());
  }
}

TEST_CASE("old messages go once every thread knows of newer ones: memory stays bounded") {
  Policy policy;
  policy.boundary = Boundary::strict;
  Newest newest;
  Machine m(std::pmr::new_delete_resource(), policy);
  m.set_chooser(&newest);
  RegionSpec r;
  r.bytes = 1 << 16;
  const RegionId data = m.add_region(r);
  const StreamId s = m.add_stream(0);
  std::vector<std::byte> row(1 << 16);
  std::size_t most = 0;
  for (int call = 0; call < 200; ++call) {
    m.begin_launch(s);
    const ThreadId t = m.launch_thread(s, 0, 0, 1);
    row[5] = static_cast<std::byte>(call);
    m.write(t, {data, 0}, acc(Order::weak, 2), row);
    std::vector<std::byte> back(row.size());
    m.read(t, {data, 0}, acc(Order::weak, 2), back);
    CHECK(back[5] == row[5]);
    m.end_thread(t);
    m.end_launch(s);
    most = std::max(most, m.messages());
  }
  // 4,096 lines; without forgetting there would be 200 messages on each.
  CHECK(most < 40 * 4096);
  CHECK_FALSE(m.failed());
}

TEST_CASE("two racing stores of different sizes are a race that names the overlap") {
  Explorer e;
  e.regions = {word(0)};
  const Step wide = [](Machine& m, ThreadId t, Registers&) {
    const std::uint64_t v = 1;
    m.write(t, {0, 0}, acc(Order::relaxed, 8), std::as_bytes(std::span(&v, 1)));
    return true;
  };
  e.threads = {{0, 0, {wide}}, {1, 0, {ld("a", {0, 4}, Order::relaxed)}}};
  const auto o = e.run();
  CHECK(o.findings == std::set{FindingKind::data_race});
  CHECK(o.missing == std::set{Missing::complete_overlap});
}

TEST_CASE("a flag polled in one word of a 16-byte store says nothing of the other words") {
  Explorer e;
  e.regions = {word(0)};
  const Step vector = [](Machine& m, ThreadId t, Registers&) {
    const std::array<std::uint32_t, 4> v{5, 6, 7, 1};
    m.write(t, {0, 0}, acc(Order::relaxed, 4), std::as_bytes(std::span(v)));
    return true;
  };
  e.threads = {{0, 0, {vector}},
               {1, 0, {await({0, 12}, 1, Order::acquire), ld("a", {0, 0}, Order::relaxed)}}};
  const auto o = e.run();
  CHECK(o.all == std::set<std::string>{"a=0", "a=5"});
}

TEST_CASE("of a line that nobody initialised, each slot stays so until it is written") {
  OneThread o(64, false);
  const std::uint32_t v = 7;
  std::uint32_t got = 0;
  const auto in = std::as_bytes(std::span(&v, 1));
  const auto out = std::as_writable_bytes(std::span(&got, 1));
  o.m.write(o.t, {o.region, 20}, acc(Order::weak, 4), in);
  o.m.read(o.t, {o.region, 20}, acc(Order::weak, 4), out);
  CHECK(got == 7);
  CHECK_FALSE(o.m.failed());
  o.m.read(o.t, {o.region, 24}, acc(Order::weak, 4), out);
  REQUIRE(o.m.failed());
  CHECK(o.m.findings().front().kind == FindingKind::uninitialised_read);
}

TEST_CASE("slots of a line that nobody accessed keep their initial content, also for wide reads") {
  OneThread o(64);
  std::array<std::uint32_t, 4> initial{1, 2, 3, 4}, got{};
  o.m.set_initial({o.region, 16}, std::as_bytes(std::span(initial)));
  const std::uint32_t v = 9;
  o.m.write(o.t, {o.region, 24}, acc(Order::weak, 4), std::as_bytes(std::span(&v, 1)));
  o.m.peek({o.region, 16}, std::as_writable_bytes(std::span(got)));
  CHECK(got == std::array<std::uint32_t, 4>{1, 2, 9, 4});
  got = {};
  o.m.read(o.t, {o.region, 16}, acc(Order::weak, 4), std::as_writable_bytes(std::span(got)));
  CHECK(got == std::array<std::uint32_t, 4>{1, 2, 9, 4});
  CHECK_FALSE(o.m.failed());
}

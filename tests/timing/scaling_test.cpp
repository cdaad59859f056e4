// Laws that virtual time has to keep, times worked out by hand, and protocols that have none.
#include <doctest/doctest.h>

#include <numeric>
#include <string>

#include "emulator/timing/simulate.hpp"

namespace ringfence::timing {
namespace {

Sizes sizes(Transport transport, std::uint32_t ranks, std::uint32_t tokens, std::uint32_t blocks) {
  Sizes s;
  s.transport = transport;
  s.ranks = ranks;
  s.tokens = tokens;
  s.blocks = blocks;
  return s;
}

const Profile& h200() {
  static const Profile p = read_profile("h200");
  return p;
}

Timing timed(const Sizes& s, const Profile& profile = h200()) {
  const Timing t = simulate(profile, s);
  CAPTURE(t.message);
  REQUIRE(t.clean);
  CHECK(std::accumulate(t.account.spent.begin(), t.account.spent.end(), Time{0}) == t.account.at);
  return t;
}

// Everything costs nothing, but for what the test says.
Profile free_of_charge() {
  Profile p;
  p.name = "free";
  p.multiprocessors = 132;
  p.block.load = p.block.store = p.memory.rate = p.memory.add = 1e9;
  p.block.copy = 0.5e9;
  p.link.read = p.link.write = p.in_switch.rate = 1e9;
  p.product.tflop_s = 1e9;
  p.product.tile_rows = p.product.tile_columns = 128;
  return p;
}

TEST_CASE("what costs nothing takes no time worth the name") {
  for (const Transport t : {Transport::multimem, Transport::peer, Transport::put}) {
    CHECK(timed(sizes(t, 4, 64, 4), free_of_charge()).account.at < 100'000);  // 0.1 us
  }
}

TEST_CASE("a link alone takes its bytes over its rate, by peer and by multimem") {
  // hidden 8192: 16384 bytes a row. R ranks, T rows.
  constexpr double row = 16384, tokens = 256, ranks = 4;
  Profile p = free_of_charge();
  p.link.read = p.link.write = 100;  // bytes a nanosecond
  p.in_switch.rate = 50;
  // peer: a rank reads its T/R rows from R - 1 others, and has the others' rows stored into it.
  const double read = tokens / ranks * (ranks - 1) * row,
               stored = tokens / ranks * (ranks - 1) * row;
  const double peer = timed(sizes(Transport::peer, 4, 256, 8), p).microseconds();
  CHECK(peer >= (read + stored) / 100 / 1e3 * 0.999);
  CHECK(peer <= (read + stored) / 100 / 1e3 * 1.15);
  // multimem: its T/R sums come in, and all T rows are stored into it by the switch.
  const double in = (tokens / ranks + tokens) * row;
  const double multimem = timed(sizes(Transport::multimem, 4, 256, 8), p).microseconds();
  CHECK(multimem >= in / 50 / 1e3 * 0.999);
  CHECK(multimem <= in / 50 / 1e3 * 1.15);
}

TEST_CASE("one rank, one block, one row: the sum of what its operations cost") {
  Profile p = free_of_charge();
  p.launch.kernel = 1000;
  p.launch.prologue = 500;
  p.signal.entry = 70;
  p.memory.swap = 30;
  p.signal.fence = 400;
  p.block.sync = 10;
  p.block.row_sum = 200;
  p.memory.load = 50;
  // Launch; start: put and wait, block barrier; loads; two barriers of the sum; block barrier; end:
  // fence, put, wait.
  const double ns = 1500 + (70 + 30 + 30) + 10 + 50 + 200 + 10 + 400 + (70 + 30 + 30);
  CHECK(timed(sizes(Transport::peer, 1, 1, 1), p).microseconds() * 1e3 ==
        doctest::Approx(ns).epsilon(0.001));
}

TEST_CASE("loads a row ahead hide the latency of all rows but the first") {
  Profile p = free_of_charge();
  p.link.load = 1000;
  p.block.row_sum = 2000;
  Sizes s = sizes(Transport::peer, 2, 32, 1);  // 16 rows a block
  CHECK(timed(s, p).microseconds() == doctest::Approx(1 + 16 * 2 + 1).epsilon(0.01));
  s.kernel.ahead = false;
  CHECK(timed(s, p).microseconds() == doctest::Approx(16 * (1 + 2) + 1).epsilon(0.01));
}

TEST_CASE("the way of a signal is waiting, once a barrier") {
  Profile p = free_of_charge();
  p.link.signal = 3000;
  const Timing t = timed(sizes(Transport::peer, 2, 2, 1), p);
  const Time waiting = t.account.spent[static_cast<std::size_t>(schedule::Spent::waiting)];
  CHECK(static_cast<double>(waiting) == doctest::Approx(6e6).epsilon(0.01));
  CHECK(t.account.at >= waiting);
}

TEST_CASE("more blocks are never slower until the link is what they wait for") {
  for (const Transport transport : {Transport::multimem, Transport::peer}) {
    CAPTURE(std::string(name(transport)));
    double before = 1e9;
    for (const std::uint32_t blocks : {1u, 2u, 4u, 8u, 16u, 32u}) {
      const Timing t = timed(sizes(transport, 4, 512, blocks));
      CAPTURE(blocks);
      const bool bound = std::max(t.busy.link_in, t.busy.link_out) > 0.85;
      CHECK(t.microseconds() <= before * (bound ? 1.03 : 1.0));
      before = t.microseconds();
    }
  }
}

TEST_CASE("one rank has no time on a link") {
  for (const Transport transport : {Transport::multimem, Transport::peer, Transport::put}) {
    const Timing t = timed(sizes(transport, 1, 64, 8));
    CHECK(t.busy.link_in == 0);
    CHECK(t.busy.link_out == 0);
    CHECK(t.busy.memory > 0);
  }
}

TEST_CASE("virtual ranks of one GPU have no time on a link, and share its memory") {
  Sizes s = sizes(Transport::peer, 4, 256, 8);
  s.gpus = 1;
  const Timing one = timed(s);
  CHECK(one.busy.link_in == 0);
  s.gpus = 4;
  CHECK(timed(s).busy.memory < one.busy.memory);
}

TEST_CASE("waves overlap: less than the product and the rest one after the other, more than it") {
  for (const Transport transport : {Transport::peer, Transport::multimem, Transport::put}) {
    CAPTURE(std::string(name(transport)));
    Sizes s = sizes(transport, 2, 4096, 8);
    s.inner = 4096;
    const Timing whole = timed(s);
    const double product = static_cast<double>(
        whole.account.spent[static_cast<std::size_t>(schedule::Spent::product)]);
    // 4096 x 8192 x 4096 multiply-adds at 770 TFLOP/s: 357 us.
    CHECK(product > 357e6);
    s.waves = 2;
    const Timing waves = timed(s);
    CHECK(static_cast<double>(waves.account.at) < 0.9 * static_cast<double>(whole.account.at));
    CHECK(static_cast<double>(waves.account.at) > product);
  }
}

TEST_CASE("a faster machine is not slower") {
  Profile fast = h200();
  for (double* rate : {&fast.link.read, &fast.link.write, &fast.in_switch.rate, &fast.memory.rate,
                       &fast.memory.add}) {
    *rate *= 2;
  }
  for (const Transport transport : {Transport::peer, Transport::multimem, Transport::put}) {
    const Sizes s = sizes(transport, 4, 512, 16);
    CHECK(timed(s, fast).account.at < timed(s).account.at);
  }
}

TEST_CASE("equal runs take equal times, to the picosecond") {
  for (const Transport transport : {Transport::peer, Transport::multimem, Transport::put}) {
    Sizes s = sizes(transport, 4, 256, 8);
    s.inner = 1024;
    s.waves = 2;
    const Timing a = timed(s), b = timed(s);
    CHECK(a.account.at == b.account.at);
    CHECK(a.account.spent == b.account.spent);
    CHECK(a.steps == b.steps);
  }
}

TEST_CASE("rows are padded to equal slices of ranks and waves") {
  CHECK(timed(sizes(Transport::peer, 3, 64, 2)).tokens == 66);
  Sizes s = sizes(Transport::peer, 3, 64, 2);
  s.inner = 64;
  s.waves = 4;
  CHECK(timed(s).tokens == 72);
  CHECK(timed(sizes(Transport::put, 3, 64, 2)).tokens == 64);
}

// A protocol that lacks its wait would be faster. It has no time: the machine's checks are on.
TEST_CASE("what lacks a barrier, an order or a clearing has a finding and no time") {
  struct Broken {
    Transport transport;
    const char *key, *value;
    machine::FindingKind kind;
  };
  using machine::FindingKind;
  for (const Broken& b :
       {Broken{Transport::peer, "start", "none", FindingKind::data_race},
        Broken{Transport::multimem, "end", "none", FindingKind::data_race},
        Broken{Transport::peer, "end.put", "relaxed", FindingKind::data_race},
        Broken{Transport::multimem, "end.block_barrier", "none", FindingKind::data_race},
        Broken{Transport::peer, "slot", "wrong", FindingKind::deadlock},
        Broken{Transport::put, "barrier_all", "none", FindingKind::data_race},
        Broken{Transport::put, "wait.order", "relaxed", FindingKind::data_race}}) {
    CAPTURE(b.key);
    Sizes s = sizes(b.transport, 2, 16, 2);
    REQUIRE(simulate(h200(), s).clean);
    s.set[b.key] = b.value;
    const Timing t = simulate(h200(), s);
    CHECK(!t.clean);
    CHECK(t.account.at == 0);
    CHECK(!t.message.empty());
    CHECK(t.finding == b.kind);
  }
}

TEST_CASE(
    "put cuts its rows into tiles: as many as waves, or as the ring of data makes necessary") {
  const auto rows = [](std::uint32_t tokens, std::uint32_t waves) {
    Sizes s = sizes(Transport::put, 2, tokens, 8);
    s.inner = 64;
    s.waves = waves;
    check(h200(), s);
    return run_config(s).set.at("tile_rows");
  };
  CHECK(rows(1024, 1) == "1024");
  CHECK(rows(1024, 4) == "256");
  CHECK(rows(1000, 3) == "334");
  CHECK(rows(20000, 1) == "12800");  // 200 MiB of rows of 16 KiB
}

TEST_CASE("sizes that cannot be are refused with what would be right") {
  const auto refused = [](Sizes s, const char* said) {
    CHECK_THROWS_WITH_AS(simulate(h200(), s), doctest::Contains(said), std::invalid_argument);
  };
  refused(sizes(Transport::peer, 0, 64, 8), "--ranks 0: expected 1 to 72");
  refused(sizes(Transport::peer, 73, 64, 8), "--ranks 73: expected 1 to 72");
  refused(sizes(Transport::peer, 4, 0, 8), "--tokens 0");
  refused(sizes(Transport::peer, 4, 64, 133), "at most 132 a rank");
  Sizes s = sizes(Transport::peer, 8, 64, 32);
  s.gpus = 1;
  refused(s, "256 blocks on a GPU cannot all be resident; at most 16 a rank");
  s.gpus = 3;
  refused(s, "--gpus 3: expected a divisor of --ranks 8");
  s = sizes(Transport::multimem, 4, 64, 8);
  s.gpus = 2;
  refused(s, "--transport multimem --gpus 2");
  s = sizes(Transport::peer, 4, 64, 8);
  s.waves = 2;
  refused(s, "expected --inner");
  s.waves = 1;
  s.hidden = 100;
  refused(s, "--hidden 100: expected a multiple of 8, such as 104");
  s.hidden = 64;
  s.set["groups"] = "2";
  refused(s, "--set groups");
}

}  // namespace
}  // namespace ringfence::timing

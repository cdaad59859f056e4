#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "emulator/programs/sum_order.hpp"
#include "tests/programs/harness.hpp"

using namespace ringfence;
using namespace ringfence::programs;
using machine::Boundary;

namespace {

// A configuration that passes in every mode, so that wrong numbers have nothing to hide behind.
Config ordered(std::uint32_t ranks) {
  Config c = small_config("tokenweave", {{"start.put", "release"}, {"start.wait", "acquire"}});
  c.ranks = ranks;
  c.tokens = 4 * ranks;
  c.inner = 8 * ranks;
  c.hidden = 16;
  return c;
}

std::string run_all(const Config& config, std::uint32_t schedules) {
  Bench bench(config);
  for (const Boundary mode : {Boundary::strict, Boundary::stream, Boundary::coherent}) {
    const std::string v = search(bench, mode, 7, schedules);
    if (v != "clean")
      return std::string(machine::name(mode)) + ": " + v + "; " + bench.program->last_mismatch();
  }
  return "clean";
}

// The verdict of one run with the default schedule.
std::string first_run(const Config& config, Boundary mode = Boundary::coherent) {
  Bench bench(config);
  return verdict(bench.run(mode, 1, schedule::StrategySpec::Kind::first));
}

}  // namespace

TEST_CASE("tokenweave: right for 1 to 8 ranks, in each dtype, call after call") {
  for (const std::uint32_t ranks : {1u, 2u, 3u, 4u, 8u}) {
    for (const char* dtype : {"bf16", "fp16", "fp32"}) {
      Config c = ordered(ranks);
      c.dtype = dtype;
      c.calls = 5;
      CAPTURE(ranks);
      CAPTURE(dtype);
      CHECK(run_all(c, ranks == 8 ? 1 : 4) == "clean");
    }
  }
}

TEST_CASE("tokenweave: right for sizes around a vector, a warp, and a block") {
  struct Size {
    std::uint32_t hidden, blocks, tokens;
  };
  // One vector; fewer vectors than ranks; one more than a warp; twice and more than a block.
  for (const Size s :
       {Size{8, 2, 8}, Size{24, 3, 8}, Size{264, 1, 4}, Size{8200, 1, 2}, Size{16384, 2, 2}}) {
    Config c = ordered(2);
    c.hidden = s.hidden;
    c.blocks = s.blocks;
    c.tokens = s.tokens;
    CAPTURE(s.hidden);
    CHECK(first_run(c) == "clean");
  }
  Config c = ordered(4);
  c.hidden = 5120;
  c.tokens = 4;
  CHECK(first_run(c) == "clean");
}

TEST_CASE("tokenweave: more blocks than rows is legal: idle blocks do both barriers") {
  Config c = ordered(2);
  c.tokens = 2;
  c.blocks = 5;
  CHECK(run_all(c, 10) == "clean");
}

TEST_CASE("tokenweave: each way to sum stays within the bounds, whatever order is chosen") {
  for (const char* policy : {"rank-order", "seeded-order", "exact", "each-step", "truncate"}) {
    for (const char* payload : {"exact", "integers", "normal"}) {
      Config c = ordered(4);
      c.summation = policy;
      c.payload = payload;
      c.calls = 2;
      CAPTURE(policy);
      CAPTURE(payload);
      CHECK(run_all(c, 5) == "clean");
    }
  }
}

namespace {

void check_results(const char* dtype) {
  Config c = ordered(4);
  c.dtype = dtype;
  c.payload = "normal";
  c.calls = 4;
  Bench bench(c);
  REQUIRE(verdict(bench.run(Boundary::coherent, 3)) == "clean");
  const Payload& payload = bench.op().payload();
  std::set<std::int64_t> sizes;
  for (std::uint32_t call = 0; call < 4; ++call) {
    const verify::Problem& p = payload.call(0, call).problem;
    sizes.insert(p.tokens);
    const verify::Inputs in = payload.inputs(0, call);
    std::vector<verify::Tensor> partials;
    verify::Partials pointers;
    for (std::uint32_t r = 0; r < 4; ++r) pointers.push_back(payload.call(0, call).partial(r));
    const verify::Outputs expected =
        verify::exact_fused(p, in, pointers, verify::Summation::fp32_rank_order);
    const auto bytes = expected.out.bytes.size();
    for (std::uint32_t r = 0; r < 4; ++r) {
      CHECK(std::memcmp(bench.op().out(0, call, r), expected.out.bytes.data(), bytes) == 0);
    }
    CHECK(std::memcmp(bench.op().residual_out(0, call, 2), expected.residual_out.bytes.data(),
                      bytes) == 0);
  }
  CHECK(sizes == std::set<std::int64_t>{4, 8, 12, 16});
}

}  // namespace

TEST_CASE("tokenweave: results are the rounding-exact reference's, and every rank has them") {
  for (const char* dtype : {"bf16", "fp32"}) {
    CAPTURE(dtype);
    check_results(dtype);
  }
}

TEST_CASE("tokenweave: payloads differ at every call, rank and group") {
  Config c = ordered(2);
  c.calls = 5;
  c.set["groups"] = "2";
  Bench bench(c);
  const Payload& payload = bench.op().payload();
  std::set<std::string> seen;
  for (std::uint32_t g = 0; g < 2; ++g) {
    for (std::uint32_t call = 0; call < 5; ++call) {
      for (std::uint32_t r = 0; r < 2; ++r) {
        const auto* first = reinterpret_cast<const char*>(payload.call(g, call).partial(r));
        seen.insert(std::string(first, 64));
      }
    }
  }
  CHECK(seen.size() == 20);
  CHECK(search(bench, Boundary::strict, 1, 5) == "clean");
}

TEST_CASE("tokenweave: with races passed over, a relaxed end put really returns old bits") {
  for (const Boundary mode : {Boundary::strict, Boundary::stream, Boundary::coherent}) {
    Bench bench(small_config("tokenweave", {{"end.put", "relaxed"}}));
    bench.ignore = {machine::FindingKind::data_race};
    const std::string v = search(bench, mode, 5, 2000);
    CAPTURE(machine::name(mode));
    CHECK((v == "stale-read" || v == "numeric-mismatch"));
    if (v == "numeric-mismatch") {
      const std::string text = bench.program->last_mismatch();
      CHECK(text.find("call 0, rank ") != std::string::npos);
      CHECK(text.find("column ") != std::string::npos);
      CHECK(text.find("expected ") != std::string::npos);
    }
  }
}

TEST_CASE(
    "tokenweave: ranks that read different bits are found even where numbers are not judged") {
  Bench bench(small_config("tokenweave", {{"end.put", "relaxed"}}));
  bench.ignore = {machine::FindingKind::data_race, machine::FindingKind::stale_read,
                  machine::FindingKind::numeric_mismatch};
  REQUIRE(search(bench, Boundary::coherent, 5, 2000) == "replica-mismatch");
  const std::string text = bench.program->last_mismatch();
  CHECK(text.find("but rank 0 has ") != std::string::npos);
}

TEST_CASE("tokenweave: a deadlock names the slot and who should have written it") {
  Bench bench(small_config("tokenweave", {{"grid", "2,3"}}));
  const schedule::Outcome o = bench.run(Boundary::coherent, 1);
  REQUIRE(verdict(o) == "deadlock");
  bool found = false;
  for (const schedule::StuckAgent& s : o.stuck) {
    if (s.status != schedule::AgentStatus::awaiting) continue;
    const schedule::SlotName name = bench.program->slot_name(s.await.at);
    if (schedule::text(schedule::unpack(s.label)) != "r1.c0.b2.t0" || s.await.wanted.value != 1)
      continue;
    found = true;
    CHECK(name.text == "start/end pad of rank 1, block 2, from rank 0");
    CHECK(name.writer == "nobody: rank 0 has 2 blocks");
  }
  CHECK(found);
  CHECK(bench.program->slot_name({2, 4}).text == "start/end pad of rank 0, block 0, from rank 1");
  CHECK(bench.program->slot_name({2, 4}).writer == "r1.b0.t0");
  CHECK(bench.program->slot_writer({2, 4}, {machine::Compare::eq, 1}) == "r1.b0.t0");
  CHECK(bench.program->slot_writer({2, 4}, {machine::Compare::eq, 0}) == "r0.b0.t1");
  CHECK(bench.program->region_name(0) == "buffer of rank 0");
}

TEST_CASE("tokenweave: a race names both program lines") {
  Bench bench(small_config("tokenweave"));
  const schedule::Outcome o = bench.run(Boundary::strict, 1);
  REQUIRE(verdict(o) == "data-race");
  const machine::Finding& f = o.findings.front();
  const std::set<std::string> names = {bench.program->site_name(f.first.site),
                                       bench.program->site_name(f.second.site)};
  CHECK(names == std::set<std::string>{"tokenweave.cpp: product: store of the partial sums (weak)",
                                       "tokenweave.cpp: multimem.ld_reduce (relaxed.sys)"});
}

TEST_CASE("tokenweave: slots left behind are found after the last launch") {
  Config c = small_config("tokenweave", {{"pads", "dirty"}});
  Bench bench(c);
  bench.ignore = {machine::FindingKind::data_race, machine::FindingKind::stale_read};
  CHECK(search(bench, Boundary::coherent, 1, 50) == "unrestored-signal");
  CHECK(bench.program->last_mismatch() ==
        "start/end pad of rank 0, block 0, from rank 3 holds 1 after the last launch: expected 0");
}

TEST_CASE("sum orders: all permutations up to 8 ranks, rotations of both directions beyond") {
  for (const std::uint32_t ranks : {1u, 2u, 4u, 5u, 9u, 12u}) {
    std::set<std::vector<int>> seen;
    const std::uint32_t n = sum_orders(ranks);
    for (std::uint32_t i = 0; i < n; ++i) {
      std::vector<int> order(ranks);
      sum_order_at(i, ranks, order.data());
      std::vector<int> sorted = order;
      std::sort(sorted.begin(), sorted.end());
      for (std::uint32_t r = 0; r < ranks; ++r) CHECK(sorted[r] == static_cast<int>(r));
      if (i == 0) CHECK(order == sorted);
      seen.insert(order);
    }
    CHECK(seen.size() == n);
  }
  CHECK(sum_orders(4) == 24);
  CHECK(sum_orders(12) == 24);
}

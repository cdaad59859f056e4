#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>

#include "tests/programs/harness.hpp"

using namespace ringfence;
using namespace ringfence::programs;
using machine::Boundary;

namespace {

Config small(std::uint32_t ranks, std::uint32_t tokens) {
  Config c = small_config("pypto");
  c.ranks = ranks;
  c.tokens = tokens;
  c.inner = 4 * ranks;
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

}  // namespace

TEST_CASE("pypto: right for 1 to 8 ranks and a short last tile, call after call") {
  for (const std::uint32_t ranks : {1u, 2u, 3u, 8u}) {
    Config c = small(ranks, 11);
    c.calls = 3;
    CAPTURE(ranks);
    CHECK(run_all(c, ranks == 8 ? 1 : 3) == "clean");
  }
}

TEST_CASE("pypto: all payloads stay within their bounds in any order of arrival") {
  for (const char* payload : {"exact", "integers", "normal"}) {
    Config c = small(3, 9);
    c.payload = payload;
    CAPTURE(payload);
    CHECK(run_all(c, 10) == "clean");
  }
  Config c = small(2, 8);
  c.hidden = 5120;  // no power of two: 1/H rounds
  CHECK(run_all(c, 1) == "clean");
}

namespace {

void check_results(Bench& bench) {
  for (std::uint32_t call = 0; call < 2; ++call) {
    const Payload::Call& made = bench.op().payload().call(0, call);
    const verify::Problem& p = made.problem;
    verify::Partials partials;
    for (std::uint32_t r = 0; r < 3; ++r) partials.push_back(made.partial(r));
    const verify::Outputs expected = verify::exact_fused(p, bench.op().payload().inputs(0, call),
                                                         partials, verify::Summation::each_step);
    const auto bytes = expected.out.bytes.size();
    for (std::uint32_t r = 0; r < 3; ++r) {
      CHECK(std::memcmp(bench.op().out(0, call, r), expected.out.bytes.data(), bytes) == 0);
      CHECK(std::memcmp(bench.op().residual_out(0, call, r), expected.residual_out.bytes.data(),
                        bytes) == 0);
    }
  }
}

}  // namespace

TEST_CASE("pypto: residual_out and out on every rank are the reference's, bit for bit") {
  for (const char* dtype : {"bf16", "fp32"}) {
    Config c = small(3, 10);
    c.calls = 2;
    c.dtype = dtype;
    CAPTURE(dtype);
    Bench bench(c);
    REQUIRE(verdict(bench.run(Boundary::strict, 2)) == "clean");
    check_results(bench);
  }
}

TEST_CASE("pypto: rings of one to three slots wrap and go on across calls") {
  for (const char* limit : {"128", "256", "384"}) {  // tiles of 4 rows and 16 columns
    Config c = small(2, 14);
    c.calls = 3;
    c.set = {{"tile_rows", "4"}, {"data_limit", limit}};
    CAPTURE(limit);
    CHECK(run_all(c, 5) == "clean");
  }
  Config c = small(2, 14);
  c.set = {{"tile_rows", "4"}, {"signal_limit", "8"}};  // two slots by signals
  CHECK(run_all(c, 5) == "clean");
}

TEST_CASE(
    "pypto: tiles of one rank overlap: an operation of the second runs before the first ends") {
  Bench bench(small(2, 16));
  bool overlapped = false;
  for (std::uint64_t seed = 1; seed <= 50 && !overlapped; ++seed) {
    schedule::RunSpec spec;
    spec.policy.boundary = Boundary::strict;
    spec.strategy.seed = seed;
    spec.history = true;
    const schedule::Outcome o = bench.executor.run(spec);
    REQUIRE(verdict(o) == "clean");
    bool second_begun = false;
    for (const machine::Event& e : o.history) {
      const schedule::AgentLabel l = schedule::unpack(e.label);
      if (!machine::is_step(e.kind)) continue;
      if (l.role != schedule::Role::task || l.rank != 0) continue;
      if (l.block == 1) second_begun = true;
      if (l.block == 0 && second_begun) overlapped = true;
    }
  }
  CHECK(overlapped);
}

TEST_CASE("pypto: slots are named with those who should write them") {
  Bench bench(small_config("pypto"));
  CHECK(bench.program->region_name(5) == "signal of rank 0");
  CHECK(bench.program->slot_name({5, 0}).text == "signal of rank 0, ring slot 0");
  CHECK(bench.program->slot_name({5, 0}).writer == "every rank's shmem_signal to rank 0");
  CHECK(bench.program->slot_name({6, 0}).writer == "every rank's shmem_barrier_all");
  CHECK(bench.program->slot_name({0, 0}).text.empty());
}

// The kernels on virtual ranks of one GPU, judged by the same comparison as the emulator's results.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <unistd.h>
#include <filesystem>

#include "cuda/host/error.hpp"
#include "cuda/host/session.hpp"
#include "cuda/host/trace_file.hpp"
#include "tests/cuda/gpu.hpp"
#include "verify/doctest.hpp"

using namespace ringfence;
using namespace ringfence::cuda;

namespace {

RunOptions small(int ranks) {
  RunOptions o;
  o.virtual_ranks = ranks;
  o.hidden = 5120;
  o.inner = int64_t{64} * ranks;
  o.blocks = 4;
  o.timeout_seconds = 5;
#ifdef RINGFENCE_FOR_EXEC
  // The emulator keeps what threads may still see of each element, and what never ends is a
  // finding.
  o.hidden = 512;
  o.timeout_seconds = 0;
#endif
  return o;
}

/// Calls with the tokens in turn; each judged.
void run_and_check(const RunOptions& o, const std::vector<int64_t>& tokens) {
  const World world = make_world(o, std::nullopt);
  int64_t most = 1;
  for (int64_t t : tokens) most = std::max(most, t);
  Session session(world, o, most + 1);
  uint64_t call = 0;
  for (int64_t t : tokens) {
    CAPTURE(t);
    session.prepare(t);
    const verify::Inputs inputs = make_inputs(session.problem(t), o.fill, o.seed, call++);
    session.upload(inputs, t);
    session.enqueue_product(t);
    world.synchronize();
    CallResult result;
    result.partial = session.fetch_partials(t);
    session.enqueue_protocol(t);
    world.synchronize();
    CHECK_NOTHROW(session.require_no_timeout());
    session.fetch_outputs(result);
    const CallVerdict verdict = judge(session.problem(t), o.fill, inputs, result);
    for (const verify::Comparison& c : verdict.comparisons) RINGFENCE_CHECK_COMPARISON(c);
    for (const std::string& fault : verdict.faults) FAIL_CHECK(fault);
    CHECK(session.pads_in_use() == "");
  }
}

}  // namespace

TEST_CASE("gpu: tokenweave over virtual ranks gives exact rows bit for bit, sizes changing") {
  if (tests::gpu_missing()) return;
  for (int ranks : {2, 4, 8}) {
    for (verify::Dtype dtype : {verify::Dtype::bf16, verify::Dtype::f16}) {
      RunOptions o = small(ranks);
      o.dtype = dtype;
      o.fill = verify::Fill::exact_rows;
      CAPTURE(ranks);
      run_and_check(o, {1, 33, 8, 5});
    }
  }
}

TEST_CASE("gpu: every layout gives exact rows bit for bit, launched cooperative or dependent") {
  if (tests::gpu_missing()) return;
  for (int ranks : {2, 4, 8}) {
    for (const char* transport : {"peer", "push"}) {
      for (bool dependent : {false, true}) {
        RunOptions o = small(ranks);
        o.transport = transport;
        o.dependent_launch = dependent;
        o.fill = verify::Fill::exact_rows;
        CAPTURE(ranks);
        CAPTURE(dependent);
        const int64_t one = int64_t{ranks} * o.blocks;  // a row a block
        REQUIRE(rows_a_block(one, ranks, o.blocks, ranks) == RowsABlock::few);
        const int64_t several = 3 * one, most = 15 * one + 1;
        REQUIRE(rows_a_block(several, ranks, o.blocks, ranks) == RowsABlock::near);
        REQUIRE((rows_a_block(most, ranks, o.blocks, ranks) == RowsABlock::near) == (ranks == 2));
        run_and_check(o, {one, several, most, one - 1});
      }
    }
  }
}

TEST_CASE("gpu: push gives what tokenweave gives, exact rows bit for bit, sizes changing") {
  if (tests::gpu_missing()) return;
  for (int ranks : {2, 3, 4, 8}) {
    for (verify::Dtype dtype : {verify::Dtype::bf16, verify::Dtype::f16}) {
      RunOptions o = small(ranks);
      o.transport = "push";
      o.dtype = dtype;
      o.fill = verify::Fill::exact_rows;
      CAPTURE(ranks);
      // Fewer rows than ranks in between: some ranks then have none.
      run_and_check(o, {9, 1, 33, 2, 8, 5, 1, 1, 40});
    }
  }
  RunOptions o = small(4);
  o.transport = "push";
  o.hidden = 12288;
  o.beta = true;
  o.stream_a_rank = true;
  run_and_check(o, {19, 2, 7});
}

TEST_CASE("gpu: calls that push and calls that do not follow one another, exact rows bit for bit") {
  if (tests::gpu_missing()) return;
  for (int ranks : {2, 5}) {
    for (bool dependent : {false, true}) {
      RunOptions o = small(ranks);
      o.push_tokens = 8;
      o.dependent_launch = dependent;
      o.fill = verify::Fill::exact_rows;
      CAPTURE(ranks);
      run_and_check(o, {3, 40, 8, 9, 1, 2, 33, 8, 8, 8, 100, 100, 7});
    }
  }
}

TEST_CASE("gpu: tokenweave with beta, odd hidden and a launch a rank stays within the bounds") {
  if (tests::gpu_missing()) return;
  RunOptions o = small(3);
  o.beta = true;
  o.hidden = 1003;
  run_and_check(o, {7});
  o = small(4);
  o.stream_a_rank = true;
  o.start = StartOrder::strict;
  o.hidden = 12288;
  run_and_check(o, {19, 2});
}

TEST_CASE(
    "gpu: pypto gives integers bit for bit in either schedule, tiles wrapping around the rings") {
  if (tests::gpu_missing()) return;
  for (int rows : {8, 64, 128}) {
    for (bool pipelined : {false, true}) {
      RunOptions o = small(4);
      o.protocol = verify::Flavour::pypto;
      o.tile_rows = rows;
      o.pipelined = pipelined;
      o.slots = 2;
      o.fill = verify::Fill::integers;
      CAPTURE(rows);
      CAPTURE(pipelined);
      run_and_check(o, {5, 150, 1});
    }
  }
}

TEST_CASE("gpu: pypto gives integers bit for bit with any number of tiles open at once") {
  if (tests::gpu_missing()) return;
  for (int slots : {2, 3, 4, 7}) {
    for (int blocks : {1, 4, 5}) {
      RunOptions o = small(3);
      o.protocol = verify::Flavour::pypto;
      o.slots = slots;
      o.blocks = blocks;
      o.hidden = 1024;
      o.fill = verify::Fill::integers;
      CAPTURE(slots);
      CAPTURE(blocks);
      run_and_check(o, {100, 8, 33, 9});
    }
  }
}

TEST_CASE("gpu: pypto gives integers bit for bit where each row is summed at its owner") {
  if (tests::gpu_missing()) return;
  for (int ranks : {1, 3, 8}) {
    for (int rows : {8, 128}) {
      for (int slots : {2, 4, 8}) {
        RunOptions o = small(ranks);
        o.protocol = verify::Flavour::pypto;
        o.owned = true;
        o.tile_rows = rows;
        o.slots = slots;
        o.pipelined = slots > 2;
        o.hidden = std::min<int64_t>(o.hidden, 1024);
        o.fill = verify::Fill::integers;
        CAPTURE(ranks);
        CAPTURE(rows);
        CAPTURE(slots);
        run_and_check(o, {5, 150, 1});
      }
    }
  }
}

TEST_CASE("gpu: pypto gives all ranks the same bits of what an owner has summed") {
  if (tests::gpu_missing()) return;
  RunOptions o = small(4);
  o.protocol = verify::Flavour::pypto;
  o.owned = true;
  o.tile_rows = 64;
  const World world = make_world(o, std::nullopt);
  Session session(world, o, 150);
  session.prepare(150);
  session.upload(make_inputs(session.problem(150), verify::Fill::normal, 1, 0), 150);
  session.enqueue_product(150);
  session.enqueue_protocol(150);
  world.synchronize();
  session.require_no_timeout();
  CallResult result;
  session.fetch_outputs(result);
  for (size_t r = 1; r < 4; ++r) {
    CHECK(result.out[r] == result.out[0]);
    CHECK(result.residual_out[r] == result.residual_out[0]);
  }
}

#ifndef RINGFENCE_FOR_EXEC  // its clock is not that of a GPU
TEST_CASE("gpu: pypto's trace is an execution that its barriers allow, with many tiles") {
  if (tests::gpu_missing()) return;
  for (bool owned : {false, true}) {
    for (int slots : {2, 0}) {
      RunOptions o = small(3);
      o.protocol = verify::Flavour::pypto;
      o.owned = owned;
      o.slots = slots;
      o.hidden = 512;
      o.calls = 2;
      o.trace =
          (std::filesystem::temp_directory_path() / fmt::format("ringfence-pypto-{}", ::getpid()))
              .string();
      CAPTURE(owned);
      CAPTURE(slots);
      const World world = make_world(o, std::nullopt);
      Session session(world, o, 150);
      session.prepare(150);
      TraceRecorder recorder(session, o);
      session.upload(make_inputs(session.problem(150), verify::Fill::normal, 1, 0), 150);
      for (uint32_t call : {0u, 1u}) {
        session.set_call(call);
        session.enqueue_protocol(call == 0 ? 150 : 70);  // 19 and 9 tiles
      }
      world.synchronize();
      session.require_no_timeout();
      const std::vector<std::string> faults = recorder.write_and_check(session);
      std::filesystem::remove(o.trace);
      for (const std::string& fault : faults) FAIL_CHECK(fault);
    }
  }
}
#endif

TEST_CASE("gpu: pypto gives integers bit for bit in half chunks") {
  if (tests::gpu_missing()) return;
  for (int rows : {8, 64, 128}) {
    RunOptions o = small(2);
    o.protocol = verify::Flavour::pypto;
    o.tile_rows = rows;
    o.hidden = 248;  // the last chunk is not whole
    o.fill = verify::Fill::integers;
    CAPTURE(rows);
    REQUIRE(pypto_chunk(rows, 248, o.blocks, rows) == pypto_whole_chunk(rows) / 2);
    run_and_check(o, {rows - 1, 1, 5});
  }
}

TEST_CASE("gpu: pypto reads again what of a row its finishers have no room to keep") {
  if (tests::gpu_missing()) return;
  for (int slots : {2, 4}) {
    RunOptions o = small(2);
    o.protocol = verify::Flavour::pypto;
    o.tile_rows = 8;
    o.slots = slots;
    o.hidden = 16384;
    o.fill = verify::Fill::integers;
    CAPTURE(slots);
    run_and_check(o, {57, 8, 17});  // more tiles than the last ones, which everyone finishes
  }
}

TEST_CASE("gpu: a rank that never comes ends in an error that names it, not in a hang") {
  if (tests::gpu_missing()) return;
  RunOptions o = small(4);
  o.stream_a_rank = true;
  o.timeout_seconds = 0.2;
  const World world = make_world(o, std::nullopt);
  Session session(world, o, 8);
  session.prepare(8);
  session.upload(make_inputs(session.problem(8), o.fill, 1, 0), 8);
  session.tokenweave()->set_absent(2);
  session.enqueue_product(8);
  session.enqueue_protocol(8);
  world.synchronize();
  try {
    session.require_no_timeout();
    FAIL("the missing rank went unnoticed");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::peer_lost);
    CHECK(std::string(e.what()).find("rank 2 is missing") != std::string::npos);
  }
}

TEST_CASE("gpu: what cannot run is refused before a launch, with what would be right") {
  if (tests::gpu_missing()) return;
  const auto refusal = [](RunOptions o) -> std::string {
    try {
      const World world = make_world(o, std::nullopt);
      Session session(world, o, 8);
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::invalid_argument);
      return e.what();
    }
    return "";
  };
  RunOptions o = small(4);
  o.hidden = 5120;
  o.blocks = 64;
  CHECK(refusal(o).find("cannot all be resident") != std::string::npos);
  o = small(4);
  o.stream_a_rank = true;
  o.dependent_launch = true;
  CHECK(refusal(o).find("leave --dependent-launch or --stream-a-rank out") != std::string::npos);
  o = small(4);
  o.blocks = 8192;
  CHECK(refusal(o).find("slots of a signal pad") != std::string::npos);
  o = small(4);
  o.hidden = 16392;
  CHECK(refusal(o).find("hidden 16392") != std::string::npos);
  o = small(4);
  o.protocol = verify::Flavour::pypto;
  o.tile_rows = 16;
  CHECK(refusal(o).find("use 8, 64 or 128") != std::string::npos);
  o = small(3);
  o.inner = 64;
  CHECK(refusal(o).find("does not divide") != std::string::npos);
}

// Compiled kernels that use barriers, exchanges, clusters, clocks and copies, each against a direct
// computation.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "tests/ptx/harness.hpp"

namespace ringfence::ptx::test {
namespace {

FaultKind fault_of(auto&& run, std::string* text = nullptr) {
  try {
    run();
  } catch (const KernelFault& fault) {
    if (text != nullptr) *text = fault.what();
    return fault.kind();
  }
  FAIL("no fault");
  return FaultKind::budget;
}

}  // namespace

TEST_CASE("ranks that signal with release and acquire see all peers' data") {
  const Module module = load("barriers");
  const Program program = decode(module, module.kernel("all_to_all"));
  for (const std::uint32_t ranks : {2U, 4U, 8U}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      FlatMemory memory(ranks);
      VirtualClock clock;
      const std::uint32_t blocks = 3;
      const std::uint32_t threads = 64;
      const auto counters = memory.symmetric("counters", blocks * 4);
      const auto data = memory.symmetric("data", ranks * blocks * threads * 4);
      std::vector<Execution> launches;
      std::vector<std::uint64_t> outs;
      for (std::uint32_t r = 0; r < ranks; ++r) {
        const std::uint64_t a = memory.allocate("counters", r, ranks * 8);
        const std::uint64_t b = memory.allocate("data", r, ranks * 8);
        std::memcpy(memory.at(a, ranks * 8), counters.unicast.data(), ranks * 8);
        std::memcpy(memory.at(b, ranks * 8), data.unicast.data(), ranks * 8);
        outs.push_back(memory.allocate("out", r, blocks * threads * 4));
        Parameters p;
        p.add(a).add(b).add(outs.back()).add(r).add(ranks);
        LaunchConfig config = launch(blocks, threads, p);
        config.rank = r;
        config.instruction_budget = 1'000'000;
        launches.emplace_back(program, config, memory, clock);
      }
      SeededChooser chooser(seed);
      run_to_end(launches, clock, chooser);
      for (std::uint32_t r = 0; r < ranks; ++r) {
        const std::uint32_t* out = view<std::uint32_t>(memory, outs[r], blocks * threads);
        for (std::uint32_t i = 0; i < blocks * threads; ++i) {
          std::uint32_t sum = 0;
          for (std::uint32_t peer = 0; peer < ranks; ++peer) {
            sum += peer * 1000 + i / threads * 100 + i % threads;
          }
          REQUIRE(out[i] == sum);
        }
      }
    }
  }
}

TEST_CASE("each rank has its own copy of a module's variables") {
  Single run(load("barriers"), "last_block");
  const std::uint64_t out = run.buffer(4);
  run.run(launch(7, 64, Parameters().add(out)));
  CHECK(view<std::uint32_t>(run.memory, out, 1)[0] == 1007);
}

TEST_CASE("a lane that waits for another lane of its warp makes progress") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Single run(load("barriers"), "intra_warp_spin");
    const std::uint64_t flag = run.buffer(4);
    const std::uint64_t out = run.buffer(8);
    run.run(launch(1, 32, Parameters().add(flag).add(out)), seed);
    CHECK(view<std::uint32_t>(run.memory, out, 2)[0] == 7);
    CHECK(view<std::uint32_t>(run.memory, out, 2)[1] == 8);
  }
}

TEST_CASE("a named barrier orders producer and consumer, its absence is a race") {
  Single run(load("barriers"), "named");
  const std::uint64_t out = run.buffer(128);
  run.run(launch(1, 64, Parameters().add(out)));
  for (std::uint32_t i = 0; i < 32; ++i) {
    CHECK(view<std::uint32_t>(run.memory, out, 32)[i] == (31 - i) * (31 - i));
  }
  std::string text;
  Single broken(load("barriers"), "unnamed");
  const std::uint64_t unused = broken.buffer(128);
  CHECK(fault_of([&] { broken.run(launch(1, 64, Parameters().add(unused))); }, &text) ==
        FaultKind::shared_race);
  CHECK(text.find("tests/ptx/kernels/barriers.cu:") != std::string::npos);
  CHECK(text.find("traces/ptx/barriers.ptx:") != std::string::npos);
}

TEST_CASE("blocks of a cluster read each other's shared memory") {
  Single run(load("barriers"), "cluster_swap");
  const std::uint64_t out = run.buffer(4 * 64 * 4);
  run.run(launch(4, 64, Parameters().add(out)));
  const std::uint32_t* values = view<std::uint32_t>(run.memory, out, 256);
  for (std::uint32_t i = 0; i < 256; ++i) CHECK(values[i] == (i / 64 % 2 ^ 1) * 100 + i % 64);
}

TEST_CASE("a time-out on the virtual clock ends a wait") {
  Single run(load("barriers"), "times_out");
  const std::uint64_t flag = run.buffer(4);
  const std::uint64_t out = run.buffer(4);
  run.run(launch(1, 1, Parameters().add(std::uint64_t{1'000'000}).add(flag).add(out)));
  CHECK(view<std::uint32_t>(run.memory, out, 1)[0] == 2);
  CHECK(run.clock.now > 1'000'000);
}

TEST_CASE("printf formats what the kernel passes") {
  Single run(load("barriers"), "prints");
  run.run(launch(1, 32, Parameters().add(std::int32_t{7})));
  CHECK(run.printed ==
        "thread 0 of 32: text  3.50 123456789abc\nthread 1 of 32: text  3.50 123456789abc\n");
}

TEST_CASE("an assertion names its text, place and thread") {
  std::string text;
  Single run(load("warp"), "asserts");
  CHECK(fault_of([&] { run.run(launch(1, 32, Parameters().add(std::int32_t{5}))); }, &text) ==
        FaultKind::assertion);
  CHECK(text.find("n > (int)threadIdx.x") != std::string::npos);
  CHECK(text.find("thread 5") != std::string::npos);
}

TEST_CASE("votes, matches, reductions and shuffles equal their definitions") {
  Single run(load("warp"), "votes");
  const std::uint64_t in = run.buffer(128);
  const std::uint64_t out = run.buffer(32 * 48);
  std::uint32_t x[32];
  for (std::uint32_t i = 0; i < 32; ++i) x[i] = (i * 37 + 5) % 101;
  std::memcpy(run.memory.at(in, 128), x, 128);
  run.run(launch(1, 32, Parameters().add(in).add(out)));
  std::uint32_t odd = 0, sum = 0, lowest = 0x7FFFFFFF, all_xor = 0;
  bool five = false;
  for (std::uint32_t i = 0; i < 32; ++i) {
    odd |= (x[i] & 1) << i;
    five = five || x[i] == 5;
    sum += x[i];
    all_xor ^= x[i];
    if (static_cast<std::int32_t>(x[i] - 50) < static_cast<std::int32_t>(lowest))
      lowest = x[i] - 50;
  }
  for (std::uint32_t t = 0; t < 32; ++t) {
    const std::uint32_t* o = view<std::uint32_t>(run.memory, out, 32 * 12) + 12 * t;
    std::uint32_t like = 0;
    for (std::uint32_t i = 0; i < 32; ++i) like |= (x[i] % 3 == x[t] % 3 ? 1U : 0U) << i;
    CHECK(o[0] == odd);
    CHECK(o[1] == (five ? 1 : 0));
    CHECK(o[2] == 1);
    CHECK(o[3] == like);
    CHECK(o[4] == 0xFFFFFFFFU);
    CHECK(o[5] == 1);
    CHECK(o[6] == sum);
    CHECK(o[7] == lowest);
    CHECK(o[8] == all_xor);
    CHECK(o[9] == x[t < 3 ? t : t - 3]);
    CHECK(o[10] == x[t % 16 + 5 < 16 ? t + 5 : t]);
    CHECK(o[11] == x[t / 8 * 8 + (t + 7) % 8]);
  }
}

TEST_CASE("halves of a warp that diverge exchange among themselves and meet again") {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    Single run(load("warp"), "diverges");
    const std::uint64_t in = run.buffer(128);
    const std::uint64_t out = run.buffer(128);
    std::uint32_t x[32], expect[32], all = 0, even = 0, most = 0;
    for (std::uint32_t i = 0; i < 32; ++i) x[i] = i * i + 3;
    std::memcpy(run.memory.at(in, 128), x, 128);
    run.run(launch(1, 32, Parameters().add(in).add(out)), seed);
    for (std::uint32_t i = 0; i < 32; i += 2) even += x[i];
    for (std::uint32_t i = 1; i < 32; i += 2) most = std::max(most, x[i]);
    for (std::uint32_t i = 0; i < 32; ++i) {
      if (i % 2 == 0) {
        expect[i] = even;
        for (std::uint32_t k = 0; k < i; ++k) expect[i] = expect[i] * 3 + k;
      } else {
        expect[i] = most + 16;
      }
      all |= expect[i];
    }
    for (std::uint32_t i = 0; i < 32; ++i) {
      CHECK(view<std::uint32_t>(run.memory, out, 32)[i] == (all ^ expect[i]));
    }
  }
}

TEST_CASE("local tables, switches and bit operations equal the same C++") {
  const std::uint32_t n = 23;
  Single run(load("warp"), "table");
  const std::uint64_t in = run.buffer(64);
  const std::uint64_t out = run.buffer(96 * 4);
  std::uint32_t x[16];
  for (std::uint32_t i = 0; i < 16; ++i) x[i] = i * 2654435761U;
  std::memcpy(run.memory.at(in, 64), x, 64);
  run.run(launch(1, 96, Parameters().add(in).add(out).add(n)));
  for (std::uint32_t t = 0; t < 96; ++t) {
    std::uint32_t local[16], sum = 0;
    for (std::uint32_t i = 0; i < 16; ++i) local[i] = x[i] * 7 + t;
    for (std::uint32_t i = 0; i < n; ++i) sum = sum * 31 + local[(sum + i) % 16];
    switch (sum % 7) {
      case 0:
        sum += 11;
        break;
      case 1:
        sum ^= 0x55;
        break;
      case 2: {
        std::uint32_t r = 0;
        for (int b = 0; b < 32; ++b) r |= (sum >> b & 1) << (31 - b);
        sum = r;
        break;
      }
      case 3: {
        const std::uint64_t both = static_cast<std::uint64_t>(n) << 32 | sum;
        std::uint32_t r = 0;
        const int selectors[4] = {1, 6, 5, 3};
        for (int b = 0; b < 4; ++b)
          r |= static_cast<std::uint32_t>(both >> (8 * selectors[b]) & 255) << (8 * b);
        sum = r;
        break;
      }
      case 4:
        sum = sum / (t + 1) + sum % (t + 3);
        break;
      case 5:
        sum = (n << 9 | sum >> 23) + static_cast<std::uint32_t>(std::countl_zero(sum));
        break;
      default: {
        std::uint32_t dot = 5;
        const int weights[4] = {4, 3, 2, 1};
        for (int b = 0; b < 4; ++b)
          dot += static_cast<std::uint32_t>(static_cast<std::int8_t>(sum >> (8 * b)) * weights[b]);
        sum = dot;
        break;
      }
    }
    CHECK(view<std::uint32_t>(run.memory, out, 96)[t] == sum);
  }
}

TEST_CASE("f64 arithmetic equals the CPU's") {
  Single run(load("warp"), "doubles");
  const std::uint64_t in = run.buffer(256);
  const std::uint64_t out = run.buffer(256);
  double* x = view<double>(run.memory, in, 32);
  for (int i = 0; i < 32; ++i) x[i] = i * 0.37 - 2.0;
  run.run(launch(1, 32, Parameters().add(in).add(out)));
  for (int i = 0; i < 32; ++i) {
    const double expect =
        std::sqrt(std::fma(x[i], x[i], 2.5)) / (x[i] + 3.0) - std::fmin(x[i], 1.0);
    CHECK(view<double>(run.memory, out, 32)[i] == expect);
  }
}

TEST_CASE("a 128-bit product carries") {
  Single run(load("warp"), "wide_product");
  const std::uint64_t in = run.buffer(24);
  const std::uint64_t out = run.buffer(16);
  std::uint64_t* x = view<std::uint64_t>(run.memory, in, 3);
  x[0] = 0xFEDCBA9876543210ULL;
  x[1] = 0xF0E1D2C3B4A59687ULL;
  x[2] = 0xFFFFFFFFFFFFFFF0ULL;
  run.run(launch(1, 1, Parameters().add(in).add(out)));
  __extension__ typedef unsigned __int128 Wide;
  const Wide product = static_cast<Wide>(x[0]) * x[1] + x[2];
  CHECK(view<std::uint64_t>(run.memory, out, 2)[0] == static_cast<std::uint64_t>(product));
  CHECK(view<std::uint64_t>(run.memory, out, 2)[1] == static_cast<std::uint64_t>(product >> 64));
}

TEST_CASE("a bulk copy completes on its mbarrier, and one goes back") {
  Single run(load("warp"), "bulk");
  const std::uint64_t in = run.buffer(1024);
  const std::uint64_t out = run.buffer(1024);
  for (std::uint32_t i = 0; i < 256; ++i) view<std::uint32_t>(run.memory, in, 256)[i] = i * 3;
  run.run(launch(1, 256, Parameters().add(in).add(out)));
  for (std::uint32_t i = 0; i < 256; ++i) {
    CHECK(view<std::uint32_t>(run.memory, out, 256)[i] == i * 6 + 1);
  }
}

TEST_CASE("a tensor-core matmul equals the exact product of small integers") {
  const std::uint32_t m = 48, n = 40, k = 96;
  Single run(load("matmul"), "matmul_bf16");
  const std::uint64_t a = run.buffer(m * k * 2);
  const std::uint64_t b = run.buffer(n * k * 2);
  const std::uint64_t c = run.buffer(m * n * 4);
  const auto value = [](std::uint32_t i) {
    return static_cast<float>(static_cast<int>(i * 2654435761U >> 28) - 8);
  };
  const auto bf16 = [](float x) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
  };
  for (std::uint32_t i = 0; i < m * k; ++i)
    view<std::uint16_t>(run.memory, a, m * k)[i] = bf16(value(i));
  for (std::uint32_t i = 0; i < n * k; ++i)
    view<std::uint16_t>(run.memory, b, n * k)[i] = bf16(value(i + 77));
  LaunchConfig config = launch(n / 8, 32, Parameters().add(a).add(b).add(c).add(n).add(k));
  config.grid[1] = m / 16;
  run.run(config);
  for (std::uint32_t i = 0; i < m; ++i) {
    for (std::uint32_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::uint32_t x = 0; x < k; ++x) sum += value(i * k + x) * value(j * k + x + 77);
      REQUIRE(view<float>(run.memory, c, m * n)[i * n + j] == sum);
    }
  }
}

TEST_CASE("an access beyond a buffer names the memory and both source lines") {
  std::string text;
  Single run(load("barriers"), "named");
  const std::uint64_t out = run.buffer(64);
  CHECK(fault_of([&] { run.run(launch(1, 64, Parameters().add(out))); }, &text) ==
        FaultKind::out_of_bounds);
  CHECK(text.find("beyond 'buffer of rank 0' of 64 bytes") != std::string::npos);
  CHECK(text.find("barriers.cu:") != std::string::npos);
}

TEST_CASE("an endless loop ends with the instruction budget") {
  Single run(load("barriers"), "intra_warp_spin");
  const std::uint64_t flag = run.buffer(4);
  LaunchConfig config = launch(1, 1, Parameters().add(flag).add(flag));
  config.instruction_budget = 5000;
  CHECK(fault_of([&] { run.run(config); }) == FaultKind::budget);
}

namespace {

// A kernel of one warp with this loop, from registers that are zero; the lane is in %r0.
Module looping(const std::string& body) {
  return parse(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry looping(.param .u64 out)\n{\n  .reg .pred %p<4>;\n"
      "  .reg .b32 %r<8>;\n  .reg .b64 %rd<4>;\n  ld.param.u64 %rd0, [out];\n"
      "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, 0;\n  mov.u32 %r2, 0;\nLOOP:\n" +
          body + "  ret;\n}\n",
      "looping.ptx");
}

}  // namespace

TEST_CASE(
    "a loop that only comes back to the same registers is told long before a budget is used") {
  const auto fault = [](const std::string& body, std::string* text = nullptr) {
    Single run(looping(body), "looping");
    const std::uint64_t out = run.buffer(256);
    LaunchConfig config = launch(1, 32, Parameters().add(out));
    config.instruction_budget = 1'000'000'000'000;
    return fault_of([&] { run.run(config); }, text);
  };
  std::string text;
  CHECK(fault("  bra.uni LOOP;\n", &text) == FaultKind::endless);
  CHECK(text.find("endless loop") != std::string::npos);
  CHECK(text.find("looping.ptx:") != std::string::npos);
  // A flag that the compiler has read once, ahead of the loop; one lane goes round.
  CHECK(fault("  setp.ne.u32 %p0, %r0, 5;\n  @%p0 bra DONE;\nAGAIN:\n  xor.b32 %r1, %r1, 1;\n"
              "  setp.lt.u32 %p1, %r1, 2;\n  @%p1 bra AGAIN;\nDONE:\n  bar.sync 0;\n") ==
        FaultKind::endless);
}

TEST_CASE("a loop that ends, however late, is none without an end") {
  const auto runs = [](const std::string& body) {
    Single run(looping(body), "looping");
    const std::uint64_t out = run.buffer(256);
    LaunchConfig config = launch(1, 32, Parameters().add(out));
    config.instruction_budget = 100'000'000;
    run.run(config);
    return view<std::uint32_t>(run.memory, out, 1)[0];
  };
  const std::string store = "  st.global.u32 [%rd0], %r1;\n";
  // By a count; by the clock, with registers that are the same round after round; by memory.
  CHECK(runs("  add.u32 %r1, %r1, 1;\n  setp.lt.u32 %p0, %r1, 1000000;\n  @%p0 bra LOOP;\n" +
             store) == 1000000);
  CHECK(runs("  mov.u32 %r2, %clock;\n  setp.lt.u32 %p0, %r2, 100000;\n  mov.u32 %r2, 0;\n"
             "  @%p0 bra LOOP;\n  mov.u32 %r1, 7;\n" +
             store) == 7);
  CHECK(runs("  setp.ne.u32 %p0, %r0, 0;\n  @%p0 bra DONE;\n"
             "  atom.global.add.u32 %r2, [%rd0], 1;\n  setp.lt.u32 %p1, %r2, 20000;\n"
             "  mov.u32 %r2, 0;\n  @%p1 bra LOOP;\n  mov.u32 %r1, 9;\n" +
             store + "DONE:\n") == 9);
}

}  // namespace ringfence::ptx::test

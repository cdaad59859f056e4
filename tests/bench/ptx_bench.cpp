// Speed of the executor on the fused kernel's mix, without a memory model. Counters: thread
// instructions a second; run with --benchmark_counters_tabular=true.

#include <benchmark/benchmark.h>

#include "tests/ptx/harness.hpp"

namespace {

using namespace ringfence::ptx;
using namespace ringfence::ptx::test;

// args: ranks, tokens, hidden, threads a block, race check of shared memory.
void fused(benchmark::State& state) {
  const Module module = load("fused");
  const Program program = decode(module, module.kernel("fused_rs_ln_ag"));
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  const auto tokens = static_cast<std::uint32_t>(state.range(1));
  const auto hidden = static_cast<std::uint32_t>(state.range(2));
  const auto threads = static_cast<std::uint32_t>(state.range(3));
  const std::uint32_t blocks = tokens / ranks < 8 ? tokens / ranks : 8;
  FlatMemory memory(ranks);
  const auto data = memory.symmetric("data", std::uint64_t{tokens} * hidden * 2);
  const auto pad = memory.symmetric("pad", blocks * ranks * 4);
  std::vector<std::uint64_t> residuals;
  std::vector<std::uint64_t> tables;
  const std::uint64_t gamma = memory.allocate("gamma", 0, hidden * 2);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    residuals.push_back(memory.allocate("residual", r, std::uint64_t{tokens} / ranks * hidden * 2));
    tables.push_back(memory.allocate("pads", r, ranks * 8));
    std::memcpy(memory.at(tables[r], ranks * 8), pad.unicast.data(), ranks * 8);
    for (std::uint32_t i = 0; i < tokens * hidden; ++i) {
      view<std::uint16_t>(memory, data.unicast[r], tokens * hidden)[i] =
          static_cast<std::uint16_t>(0x3F00 + (i * 7 + r) % 200);
    }
  }
  std::uint64_t instructions = 0;
  for (auto _ : state) {
    VirtualClock clock;
    FairChooser chooser;
    std::vector<Execution> launches;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      Parameters p;
      p.add(data.multicast).add(residuals[r]).add(gamma).add(tables[r]);
      p.add(r).add(ranks).add(tokens).add(hidden).add(1e-6F);
      LaunchConfig config = launch(blocks, threads, p);
      config.rank = r;
      config.check_shared_races = state.range(4) != 0;
      launches.emplace_back(program, config, memory, clock);
    }
    run_to_end(launches, clock, chooser);
    for (const Execution& e : launches) instructions += e.counts().thread_instructions;
  }
  state.counters["thread_instructions"] =
      benchmark::Counter(static_cast<double>(instructions), benchmark::Counter::kIsRate);
  state.SetLabel(handler_isa());
}
BENCHMARK(fused)
    ->Args({4, 128, 8192, 1024, 0})
    ->Args({4, 128, 8192, 1024, 1})
    ->Args({8, 64, 8192, 1024, 0})
    ->Args({2, 2, 256, 32, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();

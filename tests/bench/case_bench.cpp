// Compiled kernels under the memory model: schedules a second of a small case, and one run of a
// real size. Counters: thread instructions a second.

#include <benchmark/benchmark.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "emulator/cases/case_program.hpp"
#include "emulator/ranks/executors.hpp"
#include "verify/problem.hpp"

namespace {

using namespace ringfence;

template <class T>
void set(cases::Argument& argument, T value) {
  argument.bytes.resize(sizeof value);
  std::memcpy(argument.bytes.data(), &value, sizeof value);
}

// A tokenweave kernel of cuda/kernels at other sizes than its case file has.
cases::CaseFile sized(const char* path, std::int64_t tokens, std::int32_t hidden,
                      std::int32_t blocks) {
  cases::CaseFile file = cases::read_case(path);
  const auto row = static_cast<std::uint64_t>(hidden) * 2;
  const auto rows = static_cast<std::uint64_t>(tokens);
  for (cases::Memory& m : file.memories) {
    if (m.name == "data") m.bytes = rows * row;
    if (m.name == "residual") m.bytes = rows / file.ranks * row;
    if (m.name == "gamma") m.bytes = row;
    if (m.name == "pad") m.bytes = static_cast<std::uint64_t>(blocks) * file.ranks * 4;
  }
  cases::Launch& launch = file.launches[0];
  launch.grid = {{static_cast<std::uint32_t>(blocks), 1, 1}};
  // A thread of these kernels plays two of the row's (cuda/kernels/tokenweave.hpp).
  const int warps = verify::tokenweave_block_threads(hidden) / 32;
  launch.block[0] = static_cast<std::uint32_t>((warps + 1) / 2 * 32);
  std::vector<cases::Argument>& fields = launch.args[0].fields;
  set(fields[5], tokens);
  set(fields[6], hidden);
  set(fields[9], 1.0F / static_cast<float>(hidden));
  set(fields[11], blocks);
  file.check.reference->tokens = rows;
  file.check.reference->hidden = static_cast<std::uint64_t>(hidden);
  return file;
}

void run(benchmark::State& state, const char* path, schedule::StrategySpec::Kind kind) {
  const std::string made = "traces/ptx/made/tokenweave-more.ptx";  // of more than two peers
  if (std::string(path).find("peer-4") != std::string::npos && !std::filesystem::exists(made)) {
    state.SkipWithError("the build found no nvcc to make its PTX");
    return;
  }
  cases::CaseProgram program(sized(path, state.range(0), static_cast<std::int32_t>(state.range(1)),
                                   static_cast<std::int32_t>(state.range(2))),
                             {});
  const auto executor = ranks::make_inline(program);
  schedule::RunSpec spec;
  spec.policy.boundary = machine::Boundary::coherent;
  spec.strategy.kind = kind;
  spec.strategy.seed = 0;
  spec.point_limit = ~0U;
  const std::uint64_t before = program.counts().thread_instructions;
  for (auto _ : state) {
    ++spec.strategy.seed;
    const schedule::Outcome o = executor->run(spec);
    spec.expected_points = o.points;
    if (o.end != schedule::RunEnd::complete || !o.findings.empty()) {
      state.SkipWithError("a correct kernel failed");
    }
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["thread_instructions"] =
      benchmark::Counter(static_cast<double>(program.counts().thread_instructions - before),
                         benchmark::Counter::kIsRate);
}
// The goals of the issue: 1,000 schedules a second; one run under a second.
BENCHMARK_CAPTURE(run, schedules_2_ranks, "tests/cases/files/tokenweave-multimem-2.toml",
                  schedule::StrategySpec::Kind::pct)
    ->Args({2, 256, 1})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, one_run_4_ranks, "tests/cases/files/tokenweave-multimem-4.toml",
                  schedule::StrategySpec::Kind::first)
    ->Args({128, 8192, 8})
    ->Args({8, 8192, 2})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(run, one_run_4_ranks_peer, "tests/cases/files/tokenweave-peer-4.toml",
                  schedule::StrategySpec::Kind::first)
    ->Args({128, 8192, 8})
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();

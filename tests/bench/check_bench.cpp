// The exhaustive search on the signal barriers that other checkers are measured on (their figures
// stand in the README), and random executions of the same barrier. Start-up is not in these times.

#include <benchmark/benchmark.h>

#include <memory>

#include "emulator/check/explorer.hpp"
#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/run.hpp"
#include "emulator/schedule/failure.hpp"
#include "emulator/schedule/inline_executor.hpp"
#include "tests/support/barrier_litmus.hpp"
#include "tests/support/barriers.hpp"

namespace {

using namespace ringfence;
using testing::CasBarrier;
using testing::CounterBarrier;
using Form = CasBarrier::Form;

template <class P>
void search(benchmark::State& state, typename P::Shape shape, bool sets, bool fails) {
  shape.ranks = static_cast<std::uint16_t>(state.range(0));
  check::CheckSpec spec;
  spec.run.policy.boundary = machine::Boundary::strict;
  spec.sets = sets;
  std::uint64_t executions = 0, events = 0;
  for (auto _ : state) {
    const auto r = check::check([&] { return std::make_unique<P>(shape); }, spec);
    executions = r.complete + r.blocked;
    events = r.events;
    if (r.verdict != (fails ? check::Verdict::fail : check::Verdict::pass)) {
      state.SkipWithError("not the expected verdict");
    }
  }
  state.counters["executions"] = static_cast<double>(executions);
  state.counters["events"] = static_cast<double>(events);
}

void cas(benchmark::State& state, Form form) {
  search<CasBarrier>(state, {.form = form}, true, false);
}
void cas_relaxed(benchmark::State& state) {
  search<CasBarrier>(state, {.put = machine::Order::relaxed, .wait = machine::Order::relaxed}, true,
                     true);
}
void cas_missing(benchmark::State& state) {
  search<CasBarrier>(state, {.missing = true}, true, true);
}
void counter(benchmark::State& state, bool sets) { search<CounterBarrier>(state, {}, sets, false); }
BENCHMARK_CAPTURE(cas, A_loop, Form::loop)->Arg(2)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(cas, A_split, Form::split)->Arg(2)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(cas, A_par, Form::par)->Arg(2)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK(cas_relaxed)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK(cas_missing)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(counter, B_set, true)->Arg(2)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(counter, B_order, false)->Arg(2)->Arg(3)->Unit(benchmark::kMillisecond);

// Barrier A with load buffering admitted: as a litmus test, whose registers say what depends on
// what.
void cas_buffered(benchmark::State& state, bool par) {
  const litmus::Test test =
      litmus::parse(testing::cas_barrier_litmus(static_cast<int>(state.range(0)), par), "barrier");
  check::CheckSpec spec;
  spec.run.policy.boundary = machine::Boundary::strict;
  spec.run.policy.load_buffering = machine::LoadBuffering::on;
  for (int k = 0; k < machine::kFindingKinds; ++k) {
    const auto kind = static_cast<machine::FindingKind>(k);
    if (kind != machine::FindingKind::deadlock) spec.run.ignore.push_back(kind);
  }
  spec.all = true;
  std::uint64_t executions = 0, events = 0;
  for (auto _ : state) {
    bool race = false;
    const auto r = check::check([&] { return std::make_unique<litmus::LitmusProgram>(test); }, spec,
                                1, [&](const check::Execution& e) { race = race || e.race(); });
    executions = r.complete + r.blocked;
    events = r.events;
    if (r.verdict != check::Verdict::pass || r.blocked > 0 || r.unjudged > 0 || race) {
      state.SkipWithError("not the expected verdict");
    }
  }
  state.counters["executions"] = static_cast<double>(executions);
  state.counters["events"] = static_cast<double>(events);
}
BENCHMARK_CAPTURE(cas_buffered, A_split, false)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(cas_buffered, A_par, true)->Arg(6)->Arg(8)->Unit(benchmark::kMillisecond);

// Random executions a second, weak reads on.
void random_executions(benchmark::State& state) {
  CasBarrier program({.ranks = static_cast<std::uint16_t>(state.range(0))});
  schedule::InlineExecutor executor(program);
  schedule::RunSpec spec;
  spec.policy.boundary = machine::Boundary::strict;
  spec.strategy.kind = schedule::StrategySpec::Kind::random;
  spec.strategy.seed = 0;
  for (auto _ : state) {
    ++spec.strategy.seed;
    const schedule::Outcome o = executor.run(spec);
    spec.expected_points = o.points;
    if (schedule::failure(o)) state.SkipWithError("a correct barrier failed");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(random_executions)->Arg(4)->Arg(8)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();

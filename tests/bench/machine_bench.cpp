// What an access costs in the machine alone, without agents or schedules.

#include <benchmark/benchmark.h>

#include <memory_resource>
#include <vector>

#include "emulator/machine/machine.hpp"

namespace {

using namespace ringfence::machine;

struct Newest : Chooser {
  std::uint32_t choose(Choice, ThreadId, std::uint32_t) override { return 0; }
};

Access access(Order o, std::uint8_t element) {
  Access a;
  a.order = o;
  a.element = element;
  return a;
}

// One CAS slot per pair of ranks: every rank writes a cell, puts to all, waits for all, reads all.
void cas_barrier(benchmark::State& state) {
  const auto ranks = static_cast<std::uint16_t>(state.range(0));
  Machine m(std::pmr::new_delete_resource(), Policy{Boundary::strict});
  Newest newest;
  m.set_chooser(&newest);
  std::vector<RegionId> data, pad;
  for (std::uint16_t r = 0; r < ranks; ++r) {
    data.push_back(m.add_region({r, RegionKind::data, 16, true}));
    pad.push_back(m.add_region({r, RegionKind::signal, 4ull * ranks, true}));
  }
  const Access weak = access(Order::weak, 4), put = access(Order::release, 4),
               wait = access(Order::acquire, 4);
  const std::uint32_t one = 1;
  std::uint32_t got = 0;
  std::vector<ThreadId> t(ranks);
  for (auto _ : state) {
    m.reset();
    for (std::uint16_t r = 0; r < ranks; ++r) {
      const StreamId s = m.add_stream(r);
      m.begin_launch(s);
      t[r] = m.launch_thread(s, 0, 0, r);
    }
    for (std::uint16_t r = 0; r < ranks; ++r) {
      m.write(t[r], {data[r], 0}, weak, std::as_bytes(std::span(&one, 1)));
      for (std::uint16_t p = 0; p < ranks; ++p)
        m.try_cas_until(t[r], {pad[p], 4ull * r}, put, 0, 1);
    }
    for (std::uint16_t r = 0; r < ranks; ++r) {
      for (std::uint16_t p = 0; p < ranks; ++p)
        m.try_cas_until(t[r], {pad[r], 4ull * p}, wait, 1, 0);
      for (std::uint16_t p = 0; p < ranks; ++p) {
        m.read(t[r], {data[p], 0}, weak, std::as_writable_bytes(std::span(&got, 1)));
      }
    }
    if (m.failed()) state.SkipWithError("the barrier is correct, yet something was found");
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["accesses"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * ranks * (1 + 3 * ranks),
                         benchmark::Counter::kIsRate);
}
BENCHMARK(cas_barrier)->Arg(2)->Arg(4)->Arg(8)->Unit(benchmark::kMicrosecond);

// A megabyte of halves written weakly and read back strongly, launch after launch: the cost of a
// 16-byte line, forgetting included.
void stream_of_rows(benchmark::State& state) {
  Machine m(std::pmr::new_delete_resource(), Policy{});
  Newest newest;
  m.set_chooser(&newest);
  std::vector<std::byte> row(1 << 20);
  const RegionId data = m.add_region({0, RegionKind::data, row.size(), true});
  const StreamId s = m.add_stream(0);
  for (auto _ : state) {
    m.begin_launch(s);
    const ThreadId t = m.launch_thread(s, 0, 0, 1);
    m.write(t, {data, 0}, access(Order::weak, 2), row);
    m.read(t, {data, 0}, access(Order::relaxed, 2), row);
    m.end_thread(t);
    m.end_launch(s);
  }
  state.counters["lines"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * 2 * static_cast<double>(row.size()) / kLineBytes,
      benchmark::Counter::kIsRate);
}
BENCHMARK(stream_of_rows)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();

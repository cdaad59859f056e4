#include "cuda/host/trace_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "cuda/host/wait_report.hpp"

namespace ringfence::cuda {
namespace {

bool is_put(SignalKind kind) {
  return kind == SignalKind::start_put || kind == SignalKind::end_put;
}
bool is_wait(SignalKind kind) {
  return kind == SignalKind::start_wait || kind == SignalKind::end_wait;
}

struct Slot {
  std::vector<size_t> puts, waits;  // indices of events, in the order in which they took effect
};

/// By (owner of the pad, index). A put is at its peer's pad, a wait at the own one. One thread puts
/// at a slot and one waits there, so the order of the ends is the order of the effects.
std::map<std::pair<uint32_t, uint32_t>, Slot> slots_of(const std::vector<SignalEvent>& events) {
  std::map<std::pair<uint32_t, uint32_t>, Slot> slots;
  for (size_t i = 0; i < events.size(); ++i) {
    const SignalEvent& e = events[i];
    if (is_put(e.kind)) slots[{e.peer, e.slot}].puts.push_back(i);
    if (is_wait(e.kind)) slots[{e.rank, e.slot}].waits.push_back(i);
  }
  const auto by_end = [&](size_t a, size_t b) {
    return std::tie(events[a].call, events[a].end_ns) < std::tie(events[b].call, events[b].end_ns);
  };
  for (auto& [key, slot] : slots) {
    std::sort(slot.puts.begin(), slot.puts.end(), by_end);
    std::sort(slot.waits.begin(), slot.waits.end(), by_end);
  }
  return slots;
}

/// The operations of each thread, which are those with one rank, block and peer.
void check_program_order(const std::vector<SignalEvent>& events, std::vector<std::string>& faults) {
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::vector<const SignalEvent*>> threads;
  for (const SignalEvent& e : events) threads[{e.rank, e.block, e.peer}].push_back(&e);
  for (auto& [thread, own] : threads) {
    std::sort(own.begin(), own.end(), [](const SignalEvent* a, const SignalEvent* b) {
      return std::tie(a->call, a->kind) < std::tie(b->call, b->kind);
    });
    for (size_t i = 0; i + 1 < own.size(); ++i) {
      if (own[i + 1]->begin_ns >= own[i]->end_ns) continue;
      faults.push_back(
          fmt::format("program-order: rank {}, block {}, peer {}: {} of call {} began "
                      "before {} of call {} had ended",
                      std::get<0>(thread), std::get<1>(thread), std::get<2>(thread),
                      signal_kind_name(own[i + 1]->kind), own[i + 1]->call,
                      signal_kind_name(own[i]->kind), own[i]->call));
    }
  }
}

}  // namespace

std::vector<int64_t> reads_from(const std::vector<SignalEvent>& events) {
  std::vector<int64_t> from(events.size(), -1);
  for (const auto& [key, slot] : slots_of(events)) {
    for (size_t i = 0; i < slot.waits.size() && i < slot.puts.size(); ++i) {
      from[slot.waits[i]] = static_cast<int64_t>(slot.puts[i]);
    }
  }
  return from;
}

std::vector<std::string> check_signal_events(const std::vector<SignalEvent>& events, int world,
                                             bool one_clock) {
  std::vector<std::string> faults;
  for (const auto& [key, slot] : slots_of(events)) {
    const uint32_t writer = key.second % static_cast<uint32_t>(world);
    const std::string where =
        fmt::format("pad of rank {}, slot {} (block {}, from rank {})", key.first, key.second,
                    key.second / static_cast<uint32_t>(world), writer);
    if (slot.puts.size() != slot.waits.size()) {
      faults.push_back(fmt::format("lost-signal: {}: {} puts, {} waits", where, slot.puts.size(),
                                   slot.waits.size()));
      continue;
    }
    for (size_t i = 0; i < slot.puts.size(); ++i) {
      const SignalEvent& put = events[slot.puts[i]];
      const SignalEvent& wait = events[slot.waits[i]];
      if (put.rank != writer || wait.peer != writer) {
        faults.push_back(fmt::format("pairing: {}: put {} is of rank {}, its wait is for rank {}",
                                     where, i, put.rank, wait.peer));
      }
      if (put.call != wait.call) {
        faults.push_back(fmt::format("pairing: {}: put {} is of call {}, its wait of call {}",
                                     where, i, put.call, wait.call));
      }
      if (!one_clock) continue;
      if (wait.end_ns < put.begin_ns) {
        faults.push_back(fmt::format("reads-from: {}: wait {} ended {} ns before its put began",
                                     where, i, put.begin_ns - wait.end_ns));
      }
      if (i + 1 < slot.puts.size() && events[slot.puts[i + 1]].end_ns < wait.begin_ns) {
        faults.push_back(fmt::format(
            "alternation: {}: put {} ended {} ns before the wait that freed the slot began", where,
            i + 1, wait.begin_ns - events[slot.puts[i + 1]].end_ns));
      }
    }
  }
  check_program_order(events, faults);
  return faults;
}

std::vector<std::string> check_tile_events(const std::vector<SignalEvent>& events, int lag) {
  // The n-th wait of each kind of a block is that of the n-th tile, counted over the calls.
  struct Tile {
    uint64_t first_end[2] = {UINT64_MAX, UINT64_MAX};  // barrier, signal
    uint64_t last_end[2] = {0, 0};
    size_t waits[2] = {0, 0};
  };
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint64_t>> ends[2];
  for (const SignalEvent& e : events) {
    if (e.kind == SignalKind::tile_barrier) ends[0][{e.rank, e.block}].push_back(e.end_ns);
    if (e.kind == SignalKind::tile_signal) ends[1][{e.rank, e.block}].push_back(e.end_ns);
  }
  std::vector<std::string> faults;
  std::vector<Tile> tiles;
  for (int kind : {0, 1}) {
    for (auto& [block, list] : ends[kind]) {
      std::sort(list.begin(), list.end());
      if (tiles.size() < list.size()) tiles.resize(list.size());
      for (size_t n = 0; n < list.size(); ++n) {
        tiles[n].first_end[kind] = std::min(tiles[n].first_end[kind], list[n]);
        tiles[n].last_end[kind] = std::max(tiles[n].last_end[kind], list[n]);
        ++tiles[n].waits[kind];
      }
    }
  }
  for (size_t n = 0; n < tiles.size(); ++n) {
    const Tile& t = tiles[n];
    if (t.waits[0] != t.waits[1] || t.waits[0] != tiles[0].waits[0]) {
      faults.push_back(fmt::format("lost-signal: tile {}: {} waits at the barrier, {} for signals",
                                   n, t.waits[0], t.waits[1]));
      continue;
    }
    if (t.first_end[1] < t.last_end[0]) {
      faults.push_back(fmt::format(
          "barrier: tile {}: a block had all signals {} ns before another passed the barrier", n,
          t.last_end[0] - t.first_end[1]));
    }
    const size_t before = static_cast<size_t>(lag);
    if (n >= before && t.first_end[0] < tiles[n - before].last_end[1]) {
      faults.push_back(fmt::format(
          "barrier: tile {}: a block passed the barrier {} ns before tile {} was waited for", n,
          tiles[n - before].last_end[1] - t.first_end[0], n - before));
    }
  }
  return faults;
}

}  // namespace ringfence::cuda

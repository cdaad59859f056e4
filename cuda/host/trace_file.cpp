#include "cuda/host/trace_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cuda/host/check.hpp"
#include "cuda/host/session.hpp"
#include "cuda/host/wait_report.hpp"

namespace ringfence::cuda {
namespace {

bool is_put(SignalKind kind) {
  return kind == SignalKind::start_put || kind == SignalKind::end_put;
}
bool is_wait(SignalKind kind) {
  return kind == SignalKind::start_wait || kind == SignalKind::end_wait;
}

std::vector<SignalEvent> fetch_events(const DeviceBuffer& buffer, uint32_t capacity) {
  std::vector<SignalEvent> events(capacity);
  check(cudaMemcpy(events.data(), buffer.get(), capacity * sizeof(SignalEvent),
                   cudaMemcpyDeviceToHost),
        "copy of the trace");
  events.erase(std::remove_if(events.begin(), events.end(),
                              [](const SignalEvent& e) { return e.end_ns == 0; }),
               events.end());
  std::sort(events.begin(), events.end(), [](const SignalEvent& a, const SignalEvent& b) {
    return std::tie(a.begin_ns, a.rank, a.block, a.peer) <
           std::tie(b.begin_ns, b.rank, b.block, b.peer);
  });
  return events;
}

}  // namespace

std::vector<std::string> check_signal_events(std::vector<SignalEvent> events, int world) {
  // The slot that an event is about: (owner of the pad, index).
  std::map<std::pair<uint32_t, uint32_t>, std::pair<std::vector<SignalEvent>,
                                                    std::vector<SignalEvent>>> slots;
  for (const SignalEvent& e : events) {
    if (is_put(e.kind)) slots[{e.peer, e.slot}].first.push_back(e);
    if (is_wait(e.kind)) slots[{e.rank, e.slot}].second.push_back(e);
  }
  // A thread's operations at one slot follow one another, so the order of their ends is the order
  // in which they took effect.
  const auto by_end = [](const SignalEvent& a, const SignalEvent& b) { return a.end_ns < b.end_ns; };
  std::vector<std::string> faults;
  for (auto& [slot, sides] : slots) {
    auto& [puts, waits] = sides;
    const std::string where =
        fmt::format("pad of rank {}, slot {} (block {}, from rank {})", slot.first, slot.second,
                    slot.second / static_cast<uint32_t>(world),
                    slot.second % static_cast<uint32_t>(world));
    if (puts.size() != waits.size()) {
      faults.push_back(fmt::format("lost-signal: {}: {} puts, {} waits", where, puts.size(),
                                   waits.size()));
      continue;
    }
    std::sort(puts.begin(), puts.end(), by_end);
    std::sort(waits.begin(), waits.end(), by_end);
    for (size_t i = 0; i < puts.size(); ++i) {
      if (waits[i].end_ns < puts[i].begin_ns) {
        faults.push_back(fmt::format("{}: wait {} ended {} ns before its put began", where, i,
                                     puts[i].begin_ns - waits[i].end_ns));
      }
      if (i + 1 < puts.size() && puts[i + 1].end_ns < waits[i].begin_ns) {
        faults.push_back(fmt::format("{}: put {} ended {} ns before the wait that freed the slot "
                                     "began",
                                     where, i + 1, waits[i].begin_ns - puts[i + 1].end_ns));
      }
    }
  }
  return faults;
}

TraceRecorder::TraceRecorder(Session& session, const RunOptions& options) : options_(options) {
  const World& world = session.world();
  const uint64_t calls = static_cast<uint64_t>(options.calls) + (options.graph ? 3 : 0);
  // Room for all ranks, also where a process logs only its own.
  const uint64_t blocks = static_cast<uint64_t>(world.size()) * options.blocks;
  uint64_t each = static_cast<uint64_t>(world.size()) * 4;
  if (session.pypto() != nullptr) {
    each = static_cast<uint64_t>((session.max_tokens() + options.tile_rows - 1) /
                                 options.tile_rows) * 2;
  }
  const uint32_t stride = static_cast<uint32_t>(blocks * each);
  capacity_ = static_cast<uint32_t>(calls * stride);
  events_ = DeviceBuffer(world.members().front().device, capacity_ * sizeof(SignalEvent));
  const DeviceScope scope(events_.device());
  check(cudaMemset(events_.get(), 0, events_.bytes()), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaMemset");
  if (session.tokenweave() != nullptr) {
    session.tokenweave()->set_trace(events_.as<SignalEvent>(), capacity_, stride);
  } else {
    session.pypto()->set_trace(events_.as<SignalEvent>(), capacity_, stride);
  }
}

std::vector<std::string> TraceRecorder::write_and_check(Session& session) {
  const World& world = session.world();
  if (!world.is_root()) return {};
  const DeviceScope scope(events_.device());
  const std::vector<SignalEvent> events = fetch_events(events_, capacity_);
  const bool one_clock = world.kind() == World::Kind::virtual_ranks;
  std::vector<std::string> faults;
  if (events.empty()) faults.push_back("trace: no event was logged");
  if (one_clock && session.tokenweave() != nullptr) {
    faults = check_signal_events(events, world.size());
  }
  std::ofstream file(options_.trace);
  nlohmann::ordered_json header;
  header["ringfence-gpu-trace"] = 1;
  header["protocol"] = verify::flavour_name(options_.protocol);
  header["ranks"] = world.size();
  header["blocks"] = options_.blocks;
  header["seed"] = options_.seed;
  header["clock"] = one_clock ? "one" : "a device each";
  file << header.dump() << "\n";
  const uint64_t zero = events.empty() ? 0 : events.front().begin_ns;
  for (const SignalEvent& e : events) {
    nlohmann::ordered_json line;
    line["agent"] = fmt::format("r{}.c{}.b{}", e.rank, e.call, e.block);
    line["op"] = signal_kind_name(e.kind);
    if (e.peer != SpinTimeout::kAnyPeer) line["peer"] = e.peer;
    line["slot"] = e.slot;
    line["begin_ns"] = e.begin_ns - zero;
    line["end_ns"] = e.end_ns - zero;
    file << line.dump() << "\n";
  }
  nlohmann::ordered_json verdict;
  verdict["verdict"] = faults.empty() ? "pass" : "finding";
  verdict["events"] = events.size();
  file << verdict.dump() << "\n";
  return faults;
}

}  // namespace ringfence::cuda

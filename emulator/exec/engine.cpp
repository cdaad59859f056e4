#include "emulator/exec/engine.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "emulator/cases/residency.hpp"
#include "emulator/cases/space.hpp"
#include "emulator/exec/managed.hpp"
#include "emulator/ptx/decode.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/execution.hpp"
#include "emulator/ptx/link.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/ptx/source.hpp"

namespace ringfence::exec {
namespace {

using Kind = Operation::Kind;

std::uint64_t legacy_stream(std::uint32_t device) { return 0x100 + device; }

// Calls by which the host knows no more of what is pending than before.
bool polls(Call call) { return call == Call::event_query || call == Call::stream_query; }
bool ends_window(Call call) {
  switch (call) {
    case Call::hello:
    case Call::step:
    case Call::touched:
    case Call::refused:
    case Call::pointer:
    case Call::memory_info:
    case Call::kernel:
    case Call::managed:
    case Call::module_add:
      return false;
    default:
      return !polls(call);
  }
}

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      next_address_(cases::Space::kBase + cases::Space::kPageBytes),
      draws_(options_.seed) {
  devices_.count = options_.devices;
  devices_.multiprocessors = options_.profile.multiprocessors;
  for (std::uint32_t d = 0; d < devices_.count; ++d) {
    devices_.streams[legacy_stream(d)] = {d, true, true};
  }
  devices_.streams[kHostStream] = {0, false, false};
}

Summary Engine::summary() const {
  Summary s = summary_;
  s.left = static_cast<std::size_t>(
      std::count_if(devices_.pending.begin(), devices_.pending.end(), [](const Operation& o) {
        return o.kind != Kind::record && o.kind != Kind::wait && o.kind != Kind::release &&
               o.kind != Kind::touch;
      }));
  return s;
}

std::string Engine::answer(const std::string& frame) {
  In in(frame);
  Turn turn;
  turn.request = in.get<Request>();
  const bool harmless = turn.request.call == Call::hello || turn.request.call == Call::refused ||
                        turn.request.call == Call::reset;
  if (sticky_ != kSuccess && !harmless) {
    turn.status = sticky_;
  } else if (turn.request.device >= devices_.count) {
    turn.status = kInvalidValue;
  } else {
    try {
      const bool query = polls(turn.request.call);
      const bool waits = ends_window(turn.request.call) || (query && devices_.pending.empty());
      if (waits) judge();
      serve(turn, in);
      // Who is told by a query that something is over has waited for it.
      if (waits || turn.callbacks != 0 || (query && turn.status == kSuccess)) judge();
    } catch (const ptx::Error& e) {
      say(fmt::format("ringfence exec: {}", e.what()));
      summary_.unknown = true;
      turn.status = kNotSupported;
    } catch (const std::out_of_range&) {
      turn.status = kInvalidValue;  // a module or a stream that is not there
    }
    if (!in.good()) turn.status = kInvalidValue;
  }
  Reply reply;
  reply.status = turn.status;
  reply.again = turn.again;
  reply.writes = turn.writes;
  reply.callbacks = turn.callbacks;
  open_window();
  reply.busy = window_;
  Out out;
  out.put(reply);
  std::string bytes = out.bytes() + turn.to_host.bytes() + turn.to_call.bytes();
  return turn.request.call == Call::hello ? bytes + turn.out.bytes()
                                          : bytes + Out().blob(turn.out.bytes()).bytes();
}

void Engine::serve(Turn& turn, In& in) {
  const Request& r = turn.request;
  switch (r.call) {
    case Call::hello:
      if (in.get<std::uint32_t>() != kWireVersion) turn.status = kInvalidValue;
      return tell_devices(turn);
    case Call::module_add:
      return add_module(turn, in);
    case Call::kernel:
      return tell_kernel(turn, in);
    case Call::symbol:
      return find_symbol(turn, in);
    case Call::managed:
      return tell_managed(turn, in);
    case Call::allocate:
      return allocate(turn, in);
    case Call::release:
      return release(turn, in);
    case Call::share:
      return share(turn, in);
    case Call::step:
      wait_for(turn, {}, true);
      if (turn.status == kNotReady) turn.status = kSuccess;
      return;
    case Call::touched:
      return touched(in);
    case Call::memory_info:
      return tell_memory(turn);
    case Call::pointer:
      return tell_pointer(turn, in);
    case Call::copy:
      return copy(turn, in);
    case Call::fill:
      return fill(turn, in);
    case Call::launch:
      return launch(turn, in);
    case Call::stream_create:
    case Call::stream_destroy:
    case Call::stream_facts:
    case Call::stream_wait:
    case Call::stream_query:
    case Call::stream_sync:
    case Call::callback:
      return stream_call(turn, in);
    case Call::event_create:
    case Call::event_destroy:
    case Call::event_record:
    case Call::event_query:
    case Call::event_sync:
      return event_call(turn, in);
    case Call::event_elapsed:
      return elapsed(turn, in);
    case Call::device_sync: {
      Numbers wanted;
      for (const Operation& o : devices_.pending) {
        if (o.device == r.device) wanted.insert(o.number);
      }
      return wait_for(turn, wanted);
    }
    case Call::reset:
      return reset(r.device);
    case Call::peer:
      return switch_peer(turn, in);
    case Call::occupancy:
      return occupancy(turn, in);
    case Call::refused:
      return tell_refused(std::string(in.blob()));
  }
}

void Engine::tell_memory(Turn& turn) const {
  std::uint64_t used = 0;
  for (const auto& [address, a] : devices_.memory) {
    used += a.device == turn.request.device && a.host == nullptr ? a.bytes : 0;
  }
  const std::uint64_t all = options_.profile.memory_bytes;
  turn.out.put(all - used).put(all);
}

void Engine::tell_pointer(Turn& turn, In& in) const {
  const auto address = in.get<std::uint64_t>();
  const Allocation* const a = devices_.at(address);
  turn.out.put(a == nullptr         ? Place::none
               : a->host == nullptr ? Place::device
               : a->managed         ? Place::managed
                                    : Place::host);
  turn.out.put(a != nullptr ? a->device : 0);
  turn.out.put(a != nullptr ? a->address + a->bytes - address : std::uint64_t{0});
}

// Of one device, where nothing is wrong; an error took all with it.
void Engine::reset(std::uint32_t device) {
  sticky_ = kSuccess;
  devices_.pending.clear();
  std::erase_if(devices_.memory, [&](const auto& m) {
    return m.second.device == device && !m.second.memory.starts_with("managed_variable");
  });
  for (Module& m : devices_.modules) m.variables.clear();
  std::erase_if(devices_.memory,
                [&](const auto& m) { return m.second.memory.starts_with("variables"); });
}

void Engine::tell_refused(const std::string& what) {
  if (!summary_.refused.insert(what).second || options_.refused.count(what) != 0) return;
  const bool driver = what.starts_with("cu") && !what.starts_with("cuda");
  say(fmt::format("ringfence exec: {} is not supported; it returned {}", what,
                  driver ? "CUDA_ERROR_NOT_SUPPORTED" : "cudaErrorNotSupported"));
}

void Engine::tell_devices(Turn& turn) const {
  const DeviceProfile& p = options_.profile;
  DeviceFacts facts;
  const std::string name =
      p.name.empty() ? "ringfence emulated GPU (compute capability 9.0)" : p.name + " (emulated)";
  name.copy(facts.name, sizeof facts.name - 1);
  facts.memory_bytes = p.memory_bytes;
  facts.l2_bytes = p.l2_bytes;
  facts.multiprocessors = p.multiprocessors;
  facts.attributes = static_cast<std::uint32_t>(p.attributes.size());
  turn.out.put(devices_.count).put(facts);
  for (const auto& [number, value] : p.attributes) turn.out.put(number).put(value);
}
// -- launches, streams, events --------------------------------------------------------------------

std::uint64_t Engine::stream_of(const Request& r) {
  constexpr std::uint64_t kLegacy = 1, kOwn = 2;
  if (r.stream <= kLegacy) return legacy_stream(r.device);
  if (r.stream != kOwn) return r.stream;
  std::uint64_t& handle = own_streams_[{r.device, r.thread}];
  if (handle == 0) {
    handle = next_handle_++;
    devices_.streams[handle] = {r.device, true, false};
  }
  return handle;
}

Operation& Engine::enqueue(const Request& r, Kind kind) {
  Operation& o = devices_.pending.emplace_back();
  o.kind = kind;
  o.number = next_operation_++;
  o.stream = stream_of(r);
  o.device = devices_.streams.at(o.stream).device;
  return o;
}

void Engine::launch(Turn& turn, In& in) {
  const auto how = in.get<LaunchRequest>();
  const std::string kernel(in.blob());
  const std::string parameters(in.blob());
  const std::uint64_t stream = stream_of(turn.request);
  const auto at = devices_.streams.find(stream);
  if (at == devices_.streams.end()) {
    turn.status = kInvalidResourceHandle;
    return;
  }
  if (at->second.device != turn.request.device) {
    say(fmt::format("ringfence exec: {} is launched on device {} and on a stream of device {}",
                    kernel, turn.request.device, at->second.device));
    turn.status = kInvalidResourceHandle;
    return;
  }
  const ptx::Program& p = program_of(how.module, kernel);
  ptx::LaunchConfig c;
  std::copy(how.grid, how.grid + 3, c.grid.begin());
  std::copy(how.block, how.block + 3, c.block.begin());
  std::copy(how.cluster, how.cluster + 3, c.cluster.begin());
  c.dynamic_shared = how.dynamic_shared;
  c.multiprocessors = options_.profile.multiprocessors;
  try {
    for (const std::uint32_t n : c.grid) {
      if (n == 0) throw ptx::Error(kernel, 0, "a grid without blocks");
    }
    ptx::check_launch(p, c);
  } catch (const ptx::Error& e) {
    say(fmt::format("ringfence exec: {}", e.what()));
    turn.status = kInvalidConfiguration;
    return;
  }
  if (how.cooperative != 0) {
    const std::uint64_t blocks = std::uint64_t{how.grid[0]} * how.grid[1] * how.grid[2];
    const cases::Residency fit = cases::residency(p, c, options_.policy.registers);
    if (blocks > fit.blocks) {
      say(fmt::format("ringfence exec: a cooperative launch of {} blocks of {}, and {} fit, {}",
                      blocks, kernel, fit.blocks, fit.why));
      turn.status = kCooperativeTooLarge;
      return;
    }
  }
  if (devices_.pending.size() >= kQueue && next_operation_ != stuck_at_) {
    wait_for(turn, {}, true);
    if (turn.status == kNotReady) turn.status = kSuccess;
    if (turn.status != kSuccess || turn.again) return;
  }
  place_variables(devices_.modules.at(how.module), p);
  Operation& o = enqueue(turn.request, Kind::launch);
  o.how = how;
  o.kernel = kernel;
  o.parameters = parameters;
  o.parameters.resize(p.parameter_bytes, '\0');
  ++summary_.launches;
}

void Engine::stream_call(Turn& turn, In& in) {
  const Request& r = turn.request;
  if (r.call == Call::stream_create) {
    const auto flags = in.get<std::uint32_t>();
    static_cast<void>(in.get<std::int32_t>());
    constexpr std::uint32_t kNonBlocking = 1;
    devices_.streams[next_handle_] = {r.device, (flags & kNonBlocking) == 0, false};
    turn.out.put(next_handle_++);
    return;
  }
  const std::uint64_t stream = stream_of(r);
  if (devices_.streams.count(stream) == 0) {
    turn.status = kInvalidResourceHandle;
    return;
  }
  switch (r.call) {
    case Call::stream_destroy:
      return;  // what is pending on it stays so
    case Call::stream_facts:
      turn.out.put(devices_.streams[stream].device)
          .put(std::uint32_t{!devices_.streams[stream].blocking});
      return;
    case Call::stream_wait: {
      const auto at = devices_.events.find(in.get<std::uint64_t>());
      if (at == devices_.events.end()) {
        turn.status = kInvalidResourceHandle;
        return;
      }
      if (at->second.record == 0) return;  // nothing recorded it, or that is over
      enqueue(r, Kind::wait).record = at->second.record;
      return;
    }
    case Call::callback: {
      Operation& o = enqueue(r, Kind::callback);
      o.function = in.get<std::uint64_t>();
      o.argument = in.get<std::uint64_t>();
      return;
    }
    default:
      if (r.call == Call::stream_query) return query(turn, on_stream(stream));
      return wait_for(turn, on_stream(stream));
  }
}

void Engine::event_call(Turn& turn, In& in) {
  const Request& r = turn.request;
  if (r.call == Call::event_create) {
    devices_.events[next_handle_] = {};
    turn.out.put(next_handle_++);
    return;
  }
  const auto handle = in.get<std::uint64_t>();
  const auto at = devices_.events.find(handle);
  if (at == devices_.events.end()) {
    turn.status = kInvalidResourceHandle;
    return;
  }
  switch (r.call) {
    case Call::event_destroy:
      devices_.events.erase(at);
      return;
    case Call::event_record: {
      if (devices_.streams.count(stream_of(r)) == 0) {
        turn.status = kInvalidResourceHandle;
        return;
      }
      Operation& o = enqueue(r, Kind::record);
      o.event = handle;
      at->second = {o.number, std::nullopt};
      return;
    }
    default:
      if (at->second.record == 0) return;
      if (r.call == Call::event_query) return query(turn, {at->second.record});
      return wait_for(turn, {at->second.record});
  }
}

// By the clock of this machine: it says how long the emulation took.
void Engine::elapsed(Turn& turn, In& in) {
  const auto first = devices_.events.find(in.get<std::uint64_t>());
  const auto second = devices_.events.find(in.get<std::uint64_t>());
  if (first == devices_.events.end() || second == devices_.events.end()) {
    turn.status = kInvalidResourceHandle;
    return;
  }
  if (first->second.record != 0 || second->second.record != 0) {
    turn.status = kNotReady;
    return;
  }
  if (!first->second.at || !second->second.at) {
    turn.status = kInvalidResourceHandle;
    return;
  }
  turn.out.put(
      std::chrono::duration<float, std::milli>(*second->second.at - *first->second.at).count());
}

void Engine::switch_peer(Turn& turn, In& in) {
  const std::pair key(turn.request.device, in.get<std::uint32_t>());
  const bool on = in.get<std::uint32_t>() != 0;
  const bool changed = on ? peers_.insert(key).second : peers_.erase(key) == 1;
  if (!changed) turn.status = kInvalidValue;
}

}  // namespace ringfence::exec

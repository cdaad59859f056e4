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

// Operations that may wait: beyond, what is pending runs, as a launch waits where a queue is full.
constexpr std::size_t kQueue = 96;

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

bool is_text(const std::string& image) {
  return !image.starts_with(
             "\x7f"
             "ELF") &&
         !image.starts_with("\x50\xed\x55\xba");
}

// Of modules that are linked, those with kernels and what they need.
std::vector<bool> called(const std::vector<ptx::Module>& modules) {
  std::vector<bool> out(modules.size(), modules.size() == 1);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    for (const ptx::Function& f : modules[i].functions) {
      if (f.entry && f.has_body) out[i] = true;
    }
  }
  return ptx::with_what_they_name(modules, std::move(out));
}

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::move(options)), next_address_(cases::Space::kBase + cases::Space::kPageBytes) {
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
      const bool waits =
          ends_window(turn.request.call) || (polls(turn.request.call) && devices_.pending.empty());
      if (waits) judge();
      serve(turn, in);
      if (waits || turn.callbacks != 0) judge();
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
    case Call::step: {
      wait_for(turn, {}, true);
      if (turn.status == kNotReady) turn.status = kSuccess;
      return;
    }
    case Call::touched:
      return touched(in);
    case Call::memory_info: {
      std::uint64_t used = 0;
      for (const auto& [address, a] : devices_.memory) {
        used += a.device == r.device && a.host == nullptr ? a.bytes : 0;
      }
      const std::uint64_t all = options_.profile.memory_bytes;
      turn.out.put(all - used).put(all);
      return;
    }
    case Call::pointer: {
      const auto address = in.get<std::uint64_t>();
      const Allocation* const a = devices_.at(address);
      turn.out.put(a == nullptr         ? Place::none
                   : a->host == nullptr ? Place::device
                   : a->managed         ? Place::managed
                                        : Place::host);
      turn.out.put(a != nullptr ? a->device : 0);
      turn.out.put(a != nullptr ? a->address + a->bytes - address : std::uint64_t{0});
      return;
    }
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
    case Call::reset: {
      // Of one device, where nothing is wrong; an error took all with it.
      sticky_ = kSuccess;
      devices_.pending.clear();
      std::erase_if(devices_.memory, [&](const auto& m) {
        return m.second.device == r.device && !m.second.memory.starts_with("managed_variable");
      });
      for (Module& m : devices_.modules) m.variables.clear();
      std::erase_if(devices_.memory,
                    [&](const auto& m) { return m.second.memory.starts_with("variables"); });
      return;
    }
    case Call::peer:
      return switch_peer(turn, in);
    case Call::occupancy:
      return occupancy(turn, in);
    case Call::refused: {
      const std::string what(in.blob());
      if (summary_.refused.insert(what).second) {
        const bool driver = what.starts_with("cu") && !what.starts_with("cuda");
        say(fmt::format("ringfence exec: {} is not supported; it returned {}", what,
                        driver ? "CUDA_ERROR_NOT_SUPPORTED" : "cudaErrorNotSupported"));
      }
      return;
    }
  }
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

// -- modules --------------------------------------------------------------------------------------

void Engine::add_module(Turn& turn, In& in) {
  const auto count = in.get<std::uint32_t>();
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<ptx::Module> parsed;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string image(in.blob());
    const std::string file = count == 1
                                 ? fmt::format("program.{}.ptx", devices_.modules.size())
                                 : fmt::format("program.{}.{:03}.ptx", devices_.modules.size(), i);
    std::string text;
    try {
      // What a program loads itself may be PTX as it is.
      text = is_text(image) ? image : ptx::ptx_in_binary(image, file);
    } catch (const ptx::Error&) {
      continue;  // a cubin alone
    }
    parsed.push_back(ptx::parse(text, file));
    files.emplace_back(file, std::move(text));
  }
  if (files.empty()) {
    say("ringfence exec: the program's kernels hold no PTX: compile with ringfence nvcc, or add "
        "-gencode arch=compute_90a,code=compute_90a");
    turn.status = kNoKernelImage;
    return;
  }
  // Of a library that nvcc links in with -rdc, what kernels call.
  const std::vector<bool> wanted = called(parsed);
  Module m;
  std::vector<ptx::Module> linked;
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    if (!wanted[i]) continue;
    linked.push_back(std::move(parsed[i]));
    m.files.push_back(std::move(files[i]));
  }
  m.parsed = ptx::link(std::move(linked));
  place_managed(m);
  devices_.modules.push_back(std::move(m));
  turn.out.put(std::uint64_t{devices_.modules.size() - 1});
}

// __managed__ variables: one for the host and all devices. What names them says where they are from
// now on, as an address that no module has a copy of.
void Engine::place_managed(Module& module) {
  std::map<std::string, std::uint64_t, std::less<>> addresses;
  for (auto& [file, text] : module.files) {
    const ptx::Module parsed = ptx::parse(text, file);
    for (const std::string& name : managed_variables(text)) {
      const auto v = std::find_if(parsed.variables.begin(), parsed.variables.end(),
                                  [&](const ptx::Variable& one) { return one.name == name; });
      if (v == parsed.variables.end() || v->external || options_.folder.empty()) continue;
      Allocation* const a = add_shared(0, v->bytes, fmt::format("managed_variable{}", shared_++));
      if (a == nullptr) throw ptx::Error(file, v->line, "no memory for a managed variable");
      a->managed = true;
      std::copy(v->initial.begin(), v->initial.end(), a->host.get());
      addresses[name] = module.managed[name] = a->address;
    }
  }
  if (addresses.empty()) return;
  std::vector<ptx::Module> parsed;
  for (auto& [file, text] : module.files) {
    text = with_addresses(text, addresses);
    parsed.push_back(ptx::parse(text, file));
  }
  module.parsed = ptx::link(std::move(parsed));
}

void Engine::tell_managed(Turn& turn, In& in) {
  const auto number = in.get<std::uint64_t>();
  const std::string name(in.blob());
  const Module& m = devices_.modules.at(number);
  const auto at = m.managed.find(name);
  const Allocation* const a = at == m.managed.end() ? nullptr : devices_.at(at->second);
  if (a == nullptr) {
    turn.status = kInvalidSymbol;
    return;
  }
  turn.out.put(a->address).put(a->bytes).blob(a->file);
}

const ptx::Program& Engine::program_of(std::uint64_t module, const std::string& kernel) {
  Module& m = devices_.modules.at(module);
  const auto at = m.kernels.find(kernel);
  if (at != m.kernels.end()) return *at->second;
  auto program = std::make_unique<ptx::Program>(ptx::decode(m.parsed, m.parsed.kernel(kernel)));
  return *m.kernels.emplace(kernel, std::move(program)).first->second;
}

void Engine::tell_kernel(Turn& turn, In& in) {
  const auto module = in.get<std::uint64_t>();
  const std::string name(in.blob());
  const std::vector<ptx::Function>& all = devices_.modules.at(module).parsed.functions;
  const bool there = std::any_of(all.begin(), all.end(), [&](const ptx::Function& f) {
    return f.entry && f.has_body && f.name == name;
  });
  if (!there) {
    turn.status = kInvalidDeviceFunction;
    return;
  }
  const ptx::Program& p = program_of(module, name);
  const ptx::Function& f = *p.function;
  KernelFacts facts;
  facts.static_shared = p.static_shared;
  facts.local_bytes = p.local_bytes;
  if (f.max_threads) {
    facts.max_threads =
        std::min(1024U, (*f.max_threads)[0] * (*f.max_threads)[1] * (*f.max_threads)[2]);
  }
  facts.registers = f.max_registers.value_or(0);
  if (f.cluster) std::copy(f.cluster->begin(), f.cluster->end(), facts.cluster);
  facts.parameters = static_cast<std::uint32_t>(f.parameters.size());
  turn.out.put(facts);
  for (std::size_t i = 0; i < f.parameters.size(); ++i) {
    const ptx::Variable& v = f.parameters[i];
    turn.out.put(p.parameter_offset[i])
        .put(std::uint64_t{v.bytes != 0 ? v.bytes : size_of(v.type)});
  }
}

void Engine::place_variables(Module& module, const ptx::Program& program) {
  if (program.global_bytes == 0 || !module.variables.empty()) return;
  std::size_t index = 0;
  while (&devices_.modules[index] != &module) ++index;
  for (std::uint32_t d = 0; d < devices_.count; ++d) {
    Allocation& a = add_allocation(d, program.global_bytes, fmt::format("variables_{}", index));
    const std::vector<std::uint8_t> initial = ptx::initial_globals(program, a.address);
    a.put(0, initial.data(), initial.size());
    module.variables.push_back(a.address);
  }
}

void Engine::find_symbol(Turn& turn, In& in) {
  const auto number = in.get<std::uint64_t>();
  const std::string name(in.blob());
  Module& m = devices_.modules.at(number);
  // Where variables lie is decided with a kernel: any will do.
  const ptx::Program* program = nullptr;
  for (const ptx::Function& f : m.parsed.functions) {
    if (f.entry && f.has_body && program == nullptr) {
      program = &program_of(number, std::string(f.name));
    }
  }
  for (std::size_t i = 0; program != nullptr && i < m.parsed.variables.size(); ++i) {
    const ptx::Variable& v = m.parsed.variables[i];
    if (v.name != name) continue;
    place_variables(m, *program);
    turn.out.put(m.variables.at(turn.request.device) + program->module_placement[i].offset)
        .put(v.bytes);
    return;
  }
  turn.status = kInvalidSymbol;
}

void Engine::occupancy(Turn& turn, In& in) {
  const auto how = in.get<LaunchRequest>();
  const ptx::Program& p = program_of(how.module, std::string(in.blob()));
  ptx::LaunchConfig c;
  std::copy(how.block, how.block + 3, c.block.begin());
  c.dynamic_shared = how.dynamic_shared;
  c.multiprocessors = options_.profile.multiprocessors;
  const std::uint64_t fit = cases::residency(p, c, options_.policy.registers).blocks;
  turn.out.put(static_cast<std::uint32_t>(fit / c.multiprocessors));
}

// -- memory ---------------------------------------------------------------------------------------

std::string Engine::memory_for(std::uint32_t device, std::uint64_t bytes) {
  std::set<std::string> taken;
  for (const auto& [address, a] : devices_.memory) {
    if (a.device == device) taken.insert(a.memory);
  }
  for (std::size_t i = 0;; ++i) {
    std::string name = fmt::format("m{}", i);
    const auto [at, made] = memories_.emplace(name, bytes);
    if (made || (at->second == bytes && taken.count(name) == 0)) return name;
  }
}

Allocation& Engine::add_allocation(std::uint32_t device, std::uint64_t bytes,
                                   const std::string& memory) {
  constexpr std::uint64_t kPage = cases::Space::kPageBytes;
  Allocation a;
  a.address = next_address_;
  a.bytes = bytes;
  a.device = device;
  a.memory = memory;
  a.unset = {{0, bytes}};
  // Never used again, so that who goes on with a pointer to what was freed is seen; a page between.
  next_address_ += (bytes + kPage - 1) / kPage * kPage + kPage;
  return devices_.memory.emplace(a.address, std::move(a)).first->second;
}

void Engine::allocate(Turn& turn, In& in) {
  const auto bytes = in.get<std::uint64_t>();
  std::uint64_t used = 0;
  for (const auto& [address, a] : devices_.memory) {
    used += a.device == turn.request.device && a.host == nullptr ? a.bytes : 0;
  }
  if (bytes > cases::kMaxBytes || used + bytes > options_.profile.memory_bytes) {
    turn.status = kOutOfMemory;
    return;
  }
  turn.out.put(
      add_allocation(turn.request.device, bytes, memory_for(turn.request.device, bytes)).address);
}

void Engine::release(Turn& turn, In& in) {
  const auto address = in.get<std::uint64_t>();
  const bool ordered = in.get<std::uint32_t>() != 0;
  const auto at = devices_.memory.find(address);
  if (at == devices_.memory.end() || at->second.memory.starts_with("variables") ||
      at->second.memory.starts_with("managed_variable")) {
    turn.status = kInvalidValue;
    return;
  }
  if (ordered) {
    enqueue(turn.request, Kind::release).to = address;
    return;
  }
  wait_for(turn, all_pending());  // cudaFree does
  if (turn.status == kSuccess && !turn.again) devices_.memory.erase(address);
}

void Engine::share(Turn& turn, In& in) {
  const auto bytes = in.get<std::uint64_t>();
  const bool managed = in.get<std::uint32_t>() != 0;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
  if (options_.folder.empty() || bytes == 0 || bytes > kMost) {
    turn.status = kOutOfMemory;
    return;
  }
  Allocation* const a = add_shared(managed ? turn.request.device : 0, bytes,
                                   fmt::format("{}{}", managed ? "managed" : "host", shared_++));
  if (a == nullptr) {
    turn.status = kOutOfMemory;
    return;
  }
  a->managed = managed;
  turn.out.put(a->address).blob(a->file);
}

Allocation* Engine::add_shared(std::uint32_t device, std::uint64_t bytes,
                               const std::string& memory) {
  const std::string file = options_.folder + "/" + memory;
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  void* there = MAP_FAILED;
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) {
    there = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (descriptor >= 0) close(descriptor);
  if (there == MAP_FAILED) return nullptr;
  Allocation& a = add_allocation(device, bytes, memory);
  a.unset.clear();  // the host has its own ways to write
  if (window_) a.base.assign(bytes, 0);
  a.file = file;
  a.host = {static_cast<std::uint8_t*>(there), [bytes, file](std::uint8_t* p) {
              munmap(p, bytes);
              unlink(file.c_str());
            }};
  return &a;
}

bool Engine::refuses(Turn& turn, std::uint64_t address, std::uint64_t bytes, const char* what) {
  if (devices_.holding(address, bytes) != nullptr) return false;
  const Allocation* const a = devices_.at(address);
  say(fmt::format("ringfence exec: {} {} bytes at {:#x}: {}", what, bytes, address,
                  a == nullptr ? std::string("no memory is there, or it was freed")
                               : fmt::format("the memory there ends {} bytes on",
                                             a->address + a->bytes - address)));
  turn.status = kInvalidValue;
  return true;
}

void Engine::copy(Turn& turn, In& in) {
  const auto r = in.get<CopyRequest>();
  const std::string_view content =
      r.direction == Direction::to_device ? in.blob() : std::string_view{};
  for (std::uint64_t i = 0; i < r.rows; ++i) {
    if (r.direction != Direction::to_host &&
        refuses(turn, r.to + i * r.to_pitch, r.width, "a copy to")) {
      return;
    }
    if (r.direction != Direction::to_device &&
        refuses(turn, r.from + i * r.from_pitch, r.width, "a copy of")) {
      return;
    }
  }
  std::vector<Operation> rows;
  for (std::uint64_t i = 0; i < r.rows; ++i) {
    Operation& o = rows.emplace_back();
    o.kind = Kind::copy;
    o.direction = r.direction;
    o.to = r.to + i * r.to_pitch;
    o.from = r.from + i * r.from_pitch;
    o.bytes = r.width;
    if (r.direction == Direction::to_device) o.content = content.substr(i * r.width, r.width);
  }
  // Rows are steps: too many of them wait for all that is pending.
  const bool many = devices_.pending.size() + r.rows > kQueue;
  if (!many) {
    Numbers made;
    for (const Operation& row : rows) {
      Operation& queued = enqueue(turn.request, Kind::copy);
      const Operation named = queued;
      queued = row;
      queued.number = named.number;
      queued.device = named.device;
      queued.stream = named.stream;
      made.insert(queued.number);
    }
    if (r.synchronous == 0) return;
    if (with_past(made).size() != devices_.pending.size()) {
      wait_for(turn, made);
      if (turn.again) drop(made);  // it comes once more
      return;
    }
    // All else comes before it.
    drop(made);
  }
  wait_for(turn, all_pending());
  if (turn.status != kSuccess || turn.again) return;
  for (const Operation& row : rows) apply(turn, row);
}

void Engine::drop(const Numbers& numbers) {
  std::erase_if(devices_.pending, [&](const Operation& o) { return numbers.count(o.number) != 0; });
}

void Engine::fill(Turn& turn, In& in) {
  const auto r = in.get<FillRequest>();
  for (std::uint64_t i = 0; i < r.rows; ++i) {
    if (refuses(turn, r.to + i * r.pitch, r.width, "a fill of")) return;
  }
  if (devices_.pending.size() + r.rows > kQueue) {
    wait_for(turn, all_pending());
    if (turn.status != kSuccess || turn.again) return;
  }
  const bool many = r.rows > kQueue;
  for (std::uint64_t i = 0; i < r.rows; ++i) {
    Operation local;
    Operation& o = many ? local : enqueue(turn.request, Kind::fill);
    o.kind = Kind::fill;
    o.to = r.to + i * r.pitch;
    o.bytes = r.width;
    o.value = static_cast<std::uint8_t>(r.value);
    if (many) apply(turn, o);
  }
}

// What it does to memory that nothing else is at work on.
void Engine::apply(Turn& turn, const Operation& o) {
  if (o.kind == Kind::fill) {
    const std::vector<std::uint8_t> bytes(o.bytes, o.value);
    Allocation& to = *devices_.holding(o.to, o.bytes);
    // Zero all over costs nothing.
    if (o.value == 0 && o.bytes == to.bytes && to.host == nullptr) {
      to.content.clear();
      to.unset.clear();
      return;
    }
    return to.put(o.to - to.address, bytes.data(), o.bytes);
  }
  if (o.direction == Direction::to_device) {
    Allocation& to = *devices_.holding(o.to, o.bytes);
    return to.put(o.to - to.address, o.content.data(), o.bytes);
  }
  Allocation& from = *devices_.holding(o.from, o.bytes);
  const std::uint64_t at = o.from - from.address;
  if (o.direction == Direction::to_host) {
    ++turn.writes;
    turn.to_host.put(o.to).blob({reinterpret_cast<const char*>(from.data() + at), o.bytes});
    return;
  }
  Allocation& to = *devices_.holding(o.to, o.bytes);
  const std::vector<std::uint8_t> bytes(from.data() + at, from.data() + at + o.bytes);
  Pieces unset;
  for (const auto& [begin, end] : from.unset) {
    const std::uint64_t first = std::max(begin, at), last = std::min(end, at + o.bytes);
    if (first < last)
      unset.emplace_back(first - at + o.to - to.address, last - at + o.to - to.address);
  }
  to.put(o.to - to.address, bytes.data(), o.bytes);
  to.unset.insert(to.unset.end(), unset.begin(), unset.end());
  std::sort(to.unset.begin(), to.unset.end());
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
      return wait_for(turn, on_stream(stream), r.call == Call::stream_query);
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
      return wait_for(turn, {at->second.record}, r.call == Call::event_query);
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

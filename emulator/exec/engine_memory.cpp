// Allocations, copies and fills.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "emulator/cases/space.hpp"
#include "emulator/exec/engine.hpp"

namespace ringfence::exec {

using Kind = Operation::Kind;

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

}  // namespace ringfence::exec

// The host's accesses to memory that kernels see too, while something is pending: beside what runs,
// as steps of its case.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/exec/engine.hpp"
#include "emulator/machine/names.hpp"

namespace ringfence::exec {
namespace {

using Kind = Operation::Kind;

// More than that is not copied whenever something comes to be pending.
constexpr std::uint64_t kMostWatched = std::uint64_t{256} << 20;
// Schedules in which a race with the host is looked for: the one that ran has it in one order.
constexpr std::uint64_t kSchedules = 20;

}  // namespace

bool Engine::watches() const {
  std::uint64_t bytes = 0;
  for (const auto& [address, a] : devices_.memory) bytes += a.host != nullptr ? a.bytes : 0;
  return options_.host_accesses && bytes != 0 && bytes <= kMostWatched;
}

void Engine::open_window() {
  const bool busy = (!devices_.pending.empty() || kept_) && watches();
  if (busy == window_) return;
  window_ = busy;
  words_.clear();
  for (auto& [address, a] : devices_.memory) {
    if (a.host == nullptr) continue;
    a.base.clear();
    if (busy) a.base.assign(a.host.get(), a.host.get() + a.bytes);
  }
  if (!busy) return;
  // What the host did beside what is pending still has not happened where that begins.
  const auto word = [&](const HostAccess& access) -> std::uint8_t* {
    Allocation* const a = devices_.holding(access.address, sizeof access.value);
    return a == nullptr || a->base.empty() ? nullptr : &a->base[access.address - a->address];
  };
  for (auto o = devices_.pending.rbegin(); o != devices_.pending.rend(); ++o) {
    if (o->kind != Kind::touch) continue;
    words_.emplace(o->access.address, o->access.value);
    if (std::uint8_t* const at = word(o->access)) std::memcpy(at, &o->before, sizeof o->before);
  }
}

void Engine::touched(In& in) {
  const auto count = in.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.good(); ++i) {
    Operation o;
    o.kind = Kind::touch;
    o.stream = kHostStream;
    o.access = in.get<HostAccess>();
    const Allocation* const a = devices_.holding(o.access.address, sizeof o.access.value);
    if (!window_ || a == nullptr || a->host == nullptr || a->base.empty()) continue;
    const auto [word, fresh] = words_.emplace(o.access.address, 0);
    if (fresh) {
      std::memcpy(&word->second, &a->base[o.access.address - a->address], sizeof word->second);
    }
    o.before = std::exchange(word->second, o.access.value);
    if (!devices_.pending.empty()) {
      o.number = next_operation_++;
      devices_.pending.push_back(o);
    } else if (kept_ && kept_->stretch.host_stream) {
      kept_->stretch.toml += access_step(devices_, o, *kept_->stretch.host_stream);
      ++kept_->accesses;
    }
  }
}

// What runs now, with the memories as they were when it came to be pending. Where the host has done
// nothing beside it so far, that is the case which runs.
void Engine::keep(const std::vector<const Operation*>& batch, const std::string& name) {
  kept_.reset();
  const auto accesses = std::count_if(batch.begin(), batch.end(),
                                      [](const Operation* o) { return o->kind == Kind::touch; });
  if (accesses == 0) {
    kept_.emplace().name = name + "-host";
    return;
  }
  for (auto& [address, a] : devices_.memory) {
    if (a.host != nullptr && !a.base.empty()) a.content = a.base;
  }
  try {
    kept_.emplace();
    kept_->name = name + "-host";
    kept_->stretch = make_stretch(devices_, reach(), batch, kept_->name,
                                  std::string(machine::name(options_.boundary)));
    kept_->accesses = static_cast<std::size_t>(accesses);
  } catch (const TooMuch&) {
    kept_.reset();  // the program runs all the same
  }
}

// Findings are told; that it gets stuck is none, as an access is no more than one that was seen.
void Engine::judge() {
  if (!kept_) return;
  const Kept kept = std::move(*kept_);
  kept_.reset();
  window_ = false;  // what is pending from now on begins with what is there now
  if (kept.accesses == 0) return;
  try {
    write_capture(kept.stretch, kept.name);
    analysis::Task task = task_of(kept.stretch, kept.name);
    explore(task, std::max(kSchedules, options_.explore),
            fmt::format("stretch {}, with what the host accesses beside it", kept.name), true);
  } catch (const std::exception& e) {
    say(fmt::format("ringfence exec: {}: {}", kept.name, e.what()));
    summary_.unknown = true;
  }
}

}  // namespace ringfence::exec

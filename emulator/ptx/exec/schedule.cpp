// Which warp runs next, and the public face of Execution.

#include <algorithm>
#include <cstring>
#include <limits>

#include "emulator/ptx/error.hpp"
#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {

std::uint32_t SeededChooser::choose(std::uint32_t count) {
  // splitmix64; the product maps to the range without a library's distribution, which would differ
  // between platforms.
  state_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  return static_cast<std::uint32_t>((z >> 32) * count >> 32);
}

KernelFault::KernelFault(FaultKind kind, const std::string& reason, Place place)
    : std::runtime_error(std::string(name_of(kind)) + ": " + reason + "; rank " +
                         std::to_string(place.rank) + ", block " + std::to_string(place.block) +
                         ", thread " + std::to_string(place.thread) + ", " + place.file + ":" +
                         std::to_string(place.line) +
                         (place.source.empty() ? "" : " (" + place.source + ")") +
                         (place.statement.empty() ? "" : ": '" + one_line(place.statement) + "'")),
      kind_(kind),
      place_(std::move(place)) {}

const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::out_of_bounds:
      return "out of bounds";
    case FaultKind::misaligned:
      return "misaligned";
    case FaultKind::multicast_misuse:
      return "multicast misuse";
    case FaultKind::shared_race:
      return "race in shared memory";
    case FaultKind::barrier_divergence:
      return "barrier divergence";
    case FaultKind::undefined:
      return "undefined";
    case FaultKind::barrier_misuse:
      return "misuse of a barrier";
    case FaultKind::uninitialised_barrier:
      return "uninitialised barrier";
    case FaultKind::cluster_entry:
      return "cluster entry";
    case FaultKind::cluster_exit:
      return "cluster exit";
    case FaultKind::trap:
      return "trap";
    case FaultKind::assertion:
      return "assertion";
    case FaultKind::endless:
      return "endless loop";
    case FaultKind::budget:
      return "budget";
    case FaultKind::deadlock:
      return "deadlock";
  }
  return "fault";
}

std::optional<std::uint64_t> Execution::State::next_wake() const {
  std::optional<std::uint64_t> out;
  if (sleepers_ == 0) return out;
  for (const auto& [index, block] : live_blocks_) {
    for (const Warp& warp : block->warps) {
      for (const Split& split : warp.splits) {
        if (split.state == SplitState::asleep && (!out || split.wake < *out)) out = split.wake;
      }
    }
  }
  return out;
}

void Execution::State::wake_sleepers() {
  if (sleepers_ == 0) return;
  for (const auto& [index, block] : live_blocks_) {
    for (Warp& warp : block->warps) {
      for (Split& split : warp.splits) {
        if (split.state != SplitState::asleep || split.wake > clock_.now) continue;
        split.state = SplitState::ready;
        --sleepers_;
        enqueue(warp);
      }
    }
  }
}

Stop Execution::State::step(Chooser& chooser, const Quantum& quantum) {
  wake_sleepers();
  while (!queue_.empty()) {
    const std::uint32_t at = chooser.choose(static_cast<std::uint32_t>(queue_.size()));
    Warp* warp = queue_[at];
    if (at != 0) std::swap(queue_[at], queue_.front());
    queue_.pop_front();
    warp->queued = false;
    const std::size_t split = pick(*warp);
    if (split == warp->splits.size()) continue;
    const Stop stop = run_warp(*warp, split, quantum);
    // A warp that has exited may be gone together with its block.
    if (stop != Stop::exited && pick(*warp) != warp->splits.size()) enqueue(*warp);
    return stop;
  }
  return finished() ? Stop::exited : Stop::waiting;
}

std::vector<SplitRef> Execution::State::ready() const {
  std::vector<SplitRef> out;
  for (const auto& [index, block] : live_blocks_) {
    for (const Warp& warp : block->warps) {
      for (std::uint32_t s = 0; s < warp.splits.size(); ++s) {
        const Split& split = warp.splits[s];
        const bool awake = split.state == SplitState::asleep && split.wake <= clock_.now;
        if (split.state != SplitState::ready && !awake) continue;
        out.push_back({index, warp.index, s, split.mask, split.pc});
      }
    }
  }
  return out;
}

void Execution::State::ready(std::uint32_t block, std::uint32_t warp,
                             std::vector<SplitRef>& out) const {
  out.clear();
  const auto at = live_blocks_.find(block);
  if (at == live_blocks_.end()) return;
  const Warp& w = at->second->warps[warp];
  for (std::uint32_t s = 0; s < w.splits.size(); ++s) {
    if (w.splits[s].state != SplitState::ready) continue;
    out.push_back({block, warp, s, w.splits[s].mask, w.splits[s].pc});
  }
  const std::size_t first = pick(w);
  for (SplitRef& ref : out) {
    if (ref.split == first) std::swap(ref, out.front());
  }
}

WaitsAt Execution::State::waits_at(std::uint32_t block, std::uint32_t warp) const {
  WaitsAt at = WaitsAt::block;
  const auto live = live_blocks_.find(block);
  if (live == live_blocks_.end()) return at;
  for (const Split& split : live->second->warps[warp].splits) {
    if (split.state == SplitState::barrier && live->second->barriers[split.wait].count != 0) {
      return WaitsAt::counted;
    }
    if (split.state == SplitState::cluster) at = WaitsAt::cluster;
  }
  return at;
}

bool Execution::State::exited(std::uint32_t block, std::uint32_t warp) const {
  const auto at = live_blocks_.find(block);
  return at == live_blocks_.end() || at->second->warps[warp].live == 0;
}

bool Execution::State::wake(std::uint32_t block, std::uint32_t warp) {
  const auto at = live_blocks_.find(block);
  if (at == live_blocks_.end()) return false;
  bool any = false;
  for (Split& split : at->second->warps[warp].splits) {
    if (split.state != SplitState::asleep) continue;
    clock_.now = std::max(clock_.now, split.wake);
    split.state = SplitState::ready;
    --sleepers_;
    any = true;
  }
  return any;
}

Stop Execution::State::run(const SplitRef& ref, const Quantum& quantum) {
  wake_sleepers();
  const auto block = live_blocks_.find(ref.block);
  if (block == live_blocks_.end() || ref.warp >= block->second->warps.size()) {
    throw Error(program_.module->file, 0, "no such warp to run");
  }
  Warp& warp = block->second->warps[ref.warp];
  if (ref.split >= warp.splits.size() || warp.splits[ref.split].state != SplitState::ready) {
    throw Error(program_.module->file, 0, "no such split to run");
  }
  const Stop stop = run_warp(warp, ref.split, quantum);
  if (stop != Stop::exited && pick(warp) != warp.splits.size()) enqueue(warp);
  return stop;
}

void Execution::State::report_deadlock() const {
  // The first waiting split stands for all; where they wait tells the rest.
  std::string who;
  const Warp* first = nullptr;
  std::uint32_t pc = 0;
  bool barrier = false;
  unsigned shown = 0;
  for (const auto& [index, block] : live_blocks_) {
    for (const Warp& warp : block->warps) {
      for (const Split& split : warp.splits) {
        if (first == nullptr) {
          first = &warp;
          pc = split.pc;
        }
        barrier = barrier || split.state == SplitState::barrier ||
                  split.state == SplitState::cluster || split.state == SplitState::exchange ||
                  split.state == SplitState::warp_sync || split.state == SplitState::group;
        if (++shown > 4) continue;
        who += (who.empty() ? "" : ", ") + std::string("block ") + std::to_string(index) +
               " warp " + std::to_string(warp.index) + " at line " +
               std::to_string(split.pc < program_.ops.size() ? program_.ops[split.pc].line : 0);
      }
    }
  }
  if (shown > 4) who += " and " + std::to_string(shown - 4) + " more";
  const Fault fault(barrier ? FaultKind::barrier_divergence : FaultKind::deadlock,
                    "every thread waits for another one: " + who);
  if (first == nullptr) throw Error(program_.module->file, 0, "no thread waits");
  raise(fault, *first, pc);
}

Execution::Execution(const Program& program, LaunchConfig config, GlobalMemory& memory,
                     VirtualClock& clock, std::function<void(const std::string&)> print)
    : state_(std::make_shared<State>(program, std::move(config), memory, clock, std::move(print))) {
}
Execution::~Execution() = default;
Execution::Execution(Execution&&) noexcept = default;

bool Execution::finished() const { return state_->finished(); }
bool Execution::all_waiting() const { return state_->all_waiting(); }
std::optional<std::uint64_t> Execution::next_wake() const { return state_->next_wake(); }
Stop Execution::step(Chooser& chooser, const Quantum& quantum) {
  return state_->step(chooser, quantum);
}
std::vector<SplitRef> Execution::ready() const { return state_->ready(); }
void Execution::ready(std::uint32_t block, std::uint32_t warp, std::vector<SplitRef>& out) const {
  state_->ready(block, warp, out);
}
std::uint64_t Execution::events() const { return state_->events(); }
std::optional<AwaitedPhase> Execution::awaited_phase(std::uint32_t block,
                                                     std::uint32_t warp) const {
  return state_->awaited_phase(block, warp);
}
bool Execution::exited(std::uint32_t block, std::uint32_t warp) const {
  return state_->exited(block, warp);
}
bool Execution::admit(std::uint32_t block) { return state_->admit(block); }
WaitsAt Execution::waits_at(std::uint32_t block, std::uint32_t warp) const {
  return state_->waits_at(block, warp);
}
bool Execution::wake(std::uint32_t block, std::uint32_t warp) { return state_->wake(block, warp); }
Stop Execution::run(const SplitRef& split, const Quantum& quantum) {
  return state_->run(split, quantum);
}
void Execution::report_deadlock() const { state_->report_deadlock(); }
const ExecutionCounts& Execution::counts() const { return state_->counts(); }
const LaunchConfig& Execution::config() const { return state_->config(); }

void run_to_end(std::vector<Execution>& launches, VirtualClock& clock, Chooser& chooser,
                const Quantum& quantum) {
  std::vector<std::size_t> open;
  std::size_t next = 0;
  for (;;) {
    open.clear();
    bool unfinished = false;
    for (std::size_t i = 0; i < launches.size(); ++i) {
      if (launches[i].finished()) continue;
      unfinished = true;
      const std::optional<std::uint64_t> wake = launches[i].next_wake();
      if (!launches[i].all_waiting() || (wake && *wake <= clock.now)) open.push_back(i);
    }
    if (!unfinished) return;
    if (!open.empty()) {
      // Round robin under the fair chooser: the first launch at or behind `next`.
      std::size_t from = 0;
      while (from < open.size() && open[from] < next) ++from;
      const std::size_t pick =
          (from + chooser.choose(static_cast<std::uint32_t>(open.size()))) % open.size();
      launches[open[pick]].step(chooser, quantum);
      next = open[pick] + 1;
      continue;
    }
    // Nothing runs: let the clock jump to the next sleeper.
    std::optional<std::uint64_t> earliest;
    for (const Execution& launch : launches) {
      const std::optional<std::uint64_t> wake = launch.next_wake();
      if (wake && (!earliest || *wake < *earliest)) earliest = wake;
    }
    if (earliest) {
      clock.now = std::max(clock.now, *earliest);
      continue;
    }
    for (const Execution& launch : launches) {
      if (!launch.finished()) launch.report_deadlock();
    }
  }
}

// At the end of a quantum in which registers alone decided what the lanes did: if they hold what
// they held at the end of the one before, so it goes on for ever.
void Execution::State::look_for_end(Warp& warp, std::uint32_t mask, std::uint32_t pc) {
  constexpr std::uint32_t kPatience = 16;  // quanta; most loops are over by then
  if (++warp.rounds < kPatience) return;
  std::uint64_t digest = (std::uint64_t{mask} << 32 | pc) | 1U;
  const std::byte* const bytes = warp.registers.get();
  for (std::uint32_t i = 0; i + 8 <= program_.register_bytes; i += 8) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes + i, 8);
    digest = (digest ^ value) * 0x9FB21C651E98DF25ULL;
    digest ^= digest >> 29;
  }
  if (warp.rounds > kPatience && warp.round == digest) {
    throw Fault(FaultKind::endless, "the loop does nothing but come back to the same registers",
                first_lane(mask));
  }
  warp.round = digest;
}

}  // namespace ringfence::ptx

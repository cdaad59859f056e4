// What the executor's asynchronous parts need of the model: bulk copies' accesses to global memory,
// and waits for mbarriers and warpgroups.
//
// A bulk copy's accesses are weak ones of the thread that issued it, made when it was issued.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "emulator/cases/kernel_run.hpp"

namespace ringfence::cases {

void KernelRun::bulk(const ptx::Agents& agents, ptx::Operation operation, std::uint64_t address,
                     std::span<std::byte> data, std::uint32_t instruction, std::uint32_t) {
  Warp& warp = warp_of(agents);
  settle(warp);
  warp.accessed = true;
  const std::uint16_t site = warp.last_site = kernel_.site[instruction];
  std::uint32_t lane = 0;
  while ((agents.mask >> lane & 1U) == 0) ++lane;
  const Mapping* const mapping = space_.find(address);
  warp.fault_at = {~0U, address};
  if (mapping == nullptr) {
    throw ptx::Fault(
        ptx::FaultKind::out_of_bounds,
        fmt::format("bulk copy of {} bytes at 0x{:x}, where no memory is", data.size(), address),
        lane);
  }
  const std::uint64_t offset = address - mapping->address;
  warp.fault_at = {settings_.first_region + mapping->regions[0], offset};
  if (mapping->multicast) {
    throw ptx::Fault(ptx::FaultKind::multicast_misuse,
                     fmt::format("bulk copy at '{}', which is no multimem access", mapping->name),
                     lane);
  }
  if (offset > mapping->bytes || mapping->bytes - offset < data.size()) {
    throw ptx::Fault(ptx::FaultKind::out_of_bounds,
                     fmt::format("bulk copy of {} bytes at byte {} of '{}', which has {}",
                                 data.size(), offset, mapping->name, mapping->bytes),
                     lane);
  }
  machine::Access how;
  how.order = machine::Order::weak;
  how.scope = machine::Scope::sys;
  const std::uint64_t both = offset | data.size();
  how.element = static_cast<std::uint8_t>(both % 4 == 0 ? 4 : both % 2 == 0 ? 2 : 1);
  how.site = site;
  if (settings_.usage != nullptr) {
    const bool writes = operation == ptx::Operation::store;
    note_use(*mapping, offset, data.size(), writes, !writes, true);
  }
  schedule::Agent& agent = *warp.agent;
  const machine::Address at{settings_.first_region + mapping->regions[0], offset};
  if (operation == ptx::Operation::store) had_effect(warp, agents.mask);
  if (agent.weak_points()) agent.point();
  agent.act(site, [&](machine::Machine& m) {
    if (operation == ptx::Operation::store) {
      m.write(agent.lane_thread(lane), at, how, data);
    } else {
      m.read(agent.lane_thread(lane), at, how, data);
      std::uint64_t digest = 0;
      for (const std::byte b : data) {
        digest = (digest ^ static_cast<std::uint64_t>(b)) * 0x100000001B3ULL;
      }
      agent.note(digest);
    }
  });
}

// A copy may take any time: the strategy may let the first look at its end miss it.
bool KernelRun::bytes_have_come(const ptx::Agents& agents) {
  return warp_of(agents).agent->choose(schedule::DecisionKind::miss, 2) == 0;
}

void KernelRun::note_polls(Warp& warp, std::uint64_t events) {
  std::vector<ptx::SplitRef> ready;
  execution_.ready(warp.block, warp.index, ready);
  for (const ptx::SplitRef& split : ready) {
    if (split.instruction == 0) continue;
    if (kernel_.program.ops[split.instruction - 1].kind != ptx::Kind::mbarrier) continue;
    warp.polled |= split.mask;
    warp.polled_site = kernel_.site[split.instruction - 1];
  }
  warp.polled_at = events;
}

void KernelRun::park(Warp& warp) {
  const auto phase = warp.polled != 0 ? execution_.awaited_phase(warp.block, warp.index)
                                      : std::optional<ptx::AwaitedPhase>();
  if (phase) {
    const auto free = std::find_if(std::begin(fault_.phases), std::end(fault_.phases),
                                   [](const PhaseWait& w) { return !w.used; });
    if (free != std::end(fault_.phases)) {
      *free = {schedule::pack(warp.agent->label()), *phase, true};
      warp.told = &*free;
    }
  }
  tell_phases();
  warp.parked = true;
  warp.agent->park(phase ? warp.polled_site : settings_.barrier_site, phase.has_value());
  warp.parked = false;
  if (warp.told != nullptr) warp.told->used = false;
  warp.told = nullptr;
}

void KernelRun::tell_phases() {
  for (const Warp& warp : warps_) {
    if (warp.told == nullptr) continue;
    if (const auto phase = execution_.awaited_phase(warp.block, warp.index)) {
      warp.told->phase = *phase;
    }
  }
}

// A phase has completed, or a warpgroup has issued what one of its warps waits for.
void KernelRun::wake_others(Warp& warp) {
  events_ = execution_.events();
  std::vector<ptx::SplitRef> ready;
  std::vector<Warp*> woken;
  for (Warp& other : warps_) {
    if (!other.parked || &other == &warp) continue;
    execution_.ready(other.block, other.index, ready);
    if (!ready.empty()) woken.push_back(&other);
  }
  if (woken.empty()) return;
  warp.agent->act(warp.last_site, [&](machine::Machine&) {
    for (Warp* other : woken) {
      if (other->parked) warp.agent->unpark(*other->agent);
    }
  });
}

}  // namespace ringfence::cases

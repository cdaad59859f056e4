// What the executor's asynchronous parts need of the model: bulk copies' accesses to global memory,
// and waits for mbarriers and warpgroups.
//
// A bulk copy's accesses are weak ones of the thread that issued it, made when it was issued.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "emulator/cases/kernel_detail.hpp"

namespace ringfence::cases {

using ptx::kLanes;

void KernelRun::bulk(const ptx::Agents& agents, ptx::Operation operation, std::uint64_t address,
                     std::span<std::byte> data, std::uint32_t instruction, std::uint32_t) {
  Warp& warp = warp_of(agents);
  settle(warp);
  warp.accessed = true;
  const std::uint16_t site = warp.last_site = kernel_.site[instruction];
  std::uint32_t lane = 0;
  while ((agents.mask >> lane & 1U) == 0) ++lane;
  const Mapping* const mapping = space_.find(address);
  const std::uint64_t offset = mapping == nullptr ? 0 : address - mapping->address;
  if (mapping == nullptr || offset > mapping->bytes || mapping->bytes - offset < data.size()) {
    refuse_outside(warp, address, data.size(), instruction,
                   operation == ptx::Operation::store ? 0 : 1, lane);
  }
  const machine::Address at{settings_.first_region + mapping->regions[0], offset};
  if (mapping->multicast) {
    refuse(warp, at, ptx::FaultKind::multicast_misuse,
           fmt::format("bulk copy at '{}', which is no multimem access", mapping->name), lane);
  }
  warp.fault_at = at;
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

void KernelRun::before_barrier(const ptx::Agents& agents) {
  Warp& warp = warp_of(agents);
  settle(warp);
  warp.accessed = true;
  warp.agent->point();
}

namespace {

// A barrier's message: the phases complete above, the one that the step joined below.
std::uint64_t value_of(const ptx::BarrierStep& step) {
  return std::uint64_t{step.completed} << 32 | step.joined;
}

machine::Wanted wanted_of(const ptx::BarrierLook& look) {
  if (look.parity) return {machine::Compare::ne, std::uint64_t{look.phase & 1U} << 32, 1ULL << 32};
  return {machine::Compare::gt, std::uint64_t{look.phase} << 32 | 0xFFFFFFFFU};
}

machine::Access step_access(std::uint16_t site) {
  machine::Access how;
  how.order = machine::Order::relaxed;
  how.scope = machine::Scope::cluster;
  how.element = 8;
  how.site = site;
  how.of_barrier = true;
  return how;
}

}  // namespace

// Which arrivals form a generation is an order of steps at one place: each joins the generation
// that those before it leave open.
void KernelRun::barrier_step(const ptx::Agents& agents, const ptx::BarrierStep& step) {
  if (!settings_.first_shared) return;
  Warp& warp = warp_of(agents);
  const machine::Address at = barrier_address(agents, step.mbarrier, step.place);
  const machine::Access how = step_access(settings_.barrier_site);
  had_effect(warp, agents.mask);
  warp.moved = true;
  warp.agent->act(how.site, [&](machine::Machine& m) {
    m.step_of_barrier(warp.agent->lane_thread(ptx::first_lane(agents.mask)), at, how,
                      value_of(step));
  });
}

ptx::GlobalMemory::Look KernelRun::look(const ptx::Agents& agents, const ptx::BarrierLook& look,
                                        bool waits, bool now) {
  if (!settings_.first_shared) return now ? Look::complete : Look::incomplete;
  Warp& warp = warp_of(agents);
  const machine::Address at = barrier_address(agents, true, look.place);
  const machine::Access how = step_access(kernel_.site[look.instruction]);
  const machine::Wanted wanted = wanted_of(look);
  const std::uint32_t lane = ptx::first_lane(agents.mask);
  Look result = Look::complete;
  // Looked in vain before, and nothing has happened since.
  waits = waits || (warp.looked == look.instruction + 1 && warp.looked_at.offset == at.offset &&
                    warp.looked_at.region == at.region);
  warp.agent->act(how.site, [&](machine::Machine& m) {
    const machine::ThreadId thread = warp.agent->lane_thread(lane);
    m.open_region(at.region);
    if (!waits) {
      std::uint64_t value = 0;
      m.read(thread, at, how, std::as_writable_bytes(std::span(&value, 1)));
      if (!wanted.holds(value)) result = Look::incomplete;
    } else if (!m.can_end(thread, at, how, wanted, false) ||
               !m.try_read_until(thread, at, how, wanted)) {
      result = Look::later;
    }
  });
  warp.waiting &= ~agents.mask;
  warp.looking &= ~agents.mask;
  warp.looked = result == Look::incomplete ? look.instruction + 1 : 0;
  warp.looked_at = at;
  if (result != Look::later) return result;
  warp.waiting |= agents.mask;
  warp.looking |= agents.mask;
  if (warp.waits.empty()) {
    warp.polls.resize(kLanes);
    warp.waits.resize(kLanes);
  }
  ptx::each_lane(agents.mask, [&](std::uint32_t i) {
    schedule::LaneWait w;
    w.lane = i;
    w.thread = warp.agent->lane_thread(i);
    w.await = {at, how, wanted, false};
    w.needs = wanted;
    warp.waits[i].assign(1, w);
  });
  return result;
}

void KernelRun::park(Warp& warp) {
  tell_phases();
  warp.parked = true;
  warp.agent->park(settings_.barrier_site);
  warp.parked = false;
}

void KernelRun::tell_phase(Warp& warp) {
  const auto phase = execution_.awaited_phase(warp.block, warp.index);
  if (!phase) return;
  const auto free = std::find_if(std::begin(fault_.phases), std::end(fault_.phases),
                                 [](const PhaseWait& w) { return !w.used; });
  if (free == std::end(fault_.phases)) return;
  *free = {schedule::pack(warp.agent->label()), *phase, true};
  warp.told = &*free;
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

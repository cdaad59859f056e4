// What the executor's asynchronous parts need of the model: bulk copies' accesses to global memory,
// and waits for mbarriers and warpgroups.
//
// An asynchronous operation's accesses are made when it is issued, by a thread of the machine that
// nobody else has (Machine::issue): nothing orders them before what its issuer does next, so an
// access that may come before their end races with them whenever it is made.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "emulator/cases/kernel_detail.hpp"
#include "emulator/cases/plain_access.hpp"
#include "emulator/machine/barrier_step.hpp"

namespace ringfence::cases {

using ptx::kLanes;

KernelRun::Target KernelRun::bulk_target(Warp& warp, const ptx::BulkPart& part,
                                         std::uint32_t lane) {
  const std::uint64_t address = part.address;
  const std::size_t size = part.data.size();
  const Mapping* const mapping = space_.find(address);
  const std::uint64_t offset = mapping == nullptr ? 0 : address - mapping->address;
  if (mapping == nullptr || offset > mapping->bytes || mapping->bytes - offset < size) {
    refuse_outside(warp, address, size, part.instruction,
                   part.operation == ptx::Operation::load ? 1 : 0, lane);
  }
  const Target target{mapping, offset};
  const machine::Address at = place(target);
  check_reach(warp, *mapping, at, lane);
  const bool writes = part.operation != ptx::Operation::load;
  if (mapping->multicast && !(writes && settings_.plain_multicast)) {
    refuse(warp, at, ptx::FaultKind::multicast_misuse,
           fmt::format("bulk copy at '{}', which is no multimem access", mapping->name), lane);
  }
  if (settings_.usage != nullptr) note_use(*mapping, offset, size, writes, !writes, true);
  return target;
}

void KernelRun::bulk(const ptx::BulkPart& part) {
  Warp& warp = warp_of(part.agents);
  settle(warp);
  warp.accessed = true;
  const std::uint16_t site = warp.last_site = kernel_.site[part.instruction];
  const std::uint32_t lane = ptx::first_lane(part.agents.mask);
  const Target target = part.shared ? Target{} : bulk_target(warp, part, lane);
  const machine::Address at = warp.fault_at =
      part.shared ? shared_address(part.address) : place(target);
  machine::Access how;
  how.order =
      part.operation == ptx::Operation::reduce ? machine::Order::relaxed : machine::Order::weak;
  how.scope = part.scope;
  how.element = plain_element(at.offset | part.data.size());
  how.site = site;
  if (part.async) how.proxy = machine::Proxy::async;
  schedule::Agent& agent = *warp.agent;
  const machine::ThreadId thread =
      part.engine == kNoEngine ? agent.lane_thread(lane) : engines_[part.engine];
  had_effect(warp, part.agents.mask);
  if (agent.weak_points() || part.operation == ptx::Operation::reduce) {
    const machine::AccessKind kind =
        part.operation == ptx::Operation::reduce  ? machine::AccessKind::rmw
        : part.operation == ptx::Operation::store ? machine::AccessKind::write
                                                  : machine::AccessKind::read;
    agent.point({at, static_cast<std::uint32_t>(part.data.size()), kind, site});
  }
  agent.act(site, [&](machine::Machine& m) {
    if (part.shared) m.open_region(at.region);
    const std::span<const machine::Address> replicas =
        part.shared ? std::span(&at, 1) : places(target);
    if (part.operation == ptx::Operation::store) {
      for (const machine::Address& to : replicas) m.write(thread, to, how, part.data);
      for (const auto& [read, write] : m.unfenced_reads()) note_unfenced(read, write);
    } else if (part.operation == ptx::Operation::reduce) {
      for (const machine::Address& to : replicas) reduce_bytes(m, thread, to, how, part);
    } else {
      m.read(thread, at, how, part.data);
      std::uint64_t digest = 0;
      for (const std::byte b : part.data) {
        digest = (digest ^ static_cast<std::uint64_t>(b)) * 0x100000001B3ULL;
      }
      if (!part.shared) agent.note(digest);
    }
  });
}

// -- engines --------------------------------------------------------------------------------------

std::uint32_t KernelRun::number_of(machine::ThreadId engine) {
  const auto [at, fresh] =
      engine_number_.emplace(engine, static_cast<std::uint32_t>(engines_.size()));
  if (fresh) engines_.push_back(engine);
  return at->second;
}

machine::ThreadId KernelRun::thread_of(const ptx::SharedActor& actor) const {
  if (actor.engine) return engines_[actor.thread];
  const Warp& warp = warps_[actor.block * warps_a_block_ + actor.thread / kLanes];
  return warp.agent->lane_thread(actor.thread % kLanes);
}

std::uint32_t KernelRun::issue(const ptx::Agents& agents, std::uint32_t same) {
  Warp& warp = warp_of(agents);
  settle(warp);
  warp.moved = true;
  machine::ThreadId engine = machine::kNoThread;
  warp.agent->act(warp.last_site, [&](machine::Machine& m) {
    arriving_.clear();
    ptx::each_lane(agents.mask,
                   [&](std::uint32_t i) { arriving_.push_back(warp.agent->lane_thread(i)); });
    engine = m.issue(arriving_, same == kNoEngine ? machine::kNoThread : engines_[same]);
  });
  return number_of(engine);
}

std::uint32_t KernelRun::engine_time(const ptx::Agents& agents, std::uint32_t engine) {
  Warp& warp = warp_of(agents);
  std::uint32_t time = 0;
  warp.agent->act(warp.last_site, [&](machine::Machine& m) { time = m.time_of(engines_[engine]); });
  return time;
}

std::uint32_t KernelRun::end_part(const ptx::Agents& agents, std::uint32_t engine) {
  Warp& warp = warp_of(agents);
  std::uint32_t time = 0;
  warp.agent->act(warp.last_site, [&](machine::Machine& m) { time = m.advance(engines_[engine]); });
  return time;
}

void KernelRun::observe(const ptx::Agents& agents, std::uint32_t engine, std::uint32_t time) {
  Warp& warp = warp_of(agents);
  settle(warp);
  warp.moved = true;
  warp.agent->act(warp.last_site, [&](machine::Machine& m) {
    arriving_.clear();
    ptx::each_lane(agents.mask,
                   [&](std::uint32_t i) { arriving_.push_back(warp.agent->lane_thread(i)); });
    m.observe(arriving_, engines_[engine], time);
  });
}

void KernelRun::complete(ptx::SyncToken token, const ptx::Agents& agents, std::uint32_t engine,
                         std::uint32_t time, std::uint32_t block) {
  Warp& warp = warp_of(agents);
  settle(warp);
  Token& t = tokens_[token];
  warp.agent->act(settings_.barrier_site, [&](machine::Machine& m) {
    warp.agent->arrived(&t, 0);  // an engine does, no lane
    if (!t.meeting) t.meeting = m.open_meeting();
    machine::Placement home = m.placement(warp.agent->lane_thread(ptx::first_lane(agents.mask)));
    home.cta = block;  // of the same cluster
    m.complete(*t.meeting, engines_[engine], time, home);
  });
}

std::pair<std::uint32_t, std::uint32_t> KernelRun::initialise(const ptx::Agents& agents) {
  Warp& warp = warp_of(agents);
  settle(warp);
  warp.moved = true;
  machine::Machine::Moment moment;
  warp.agent->act(warp.last_site, [&](machine::Machine& m) {
    moment = m.mbarrier_init(warp.agent->lane_thread(ptx::first_lane(agents.mask)));
  });
  return {number_of(moment.thread), moment.time};
}

// A copy may take any time: the strategy may let a look at its end miss it, as long as nothing that
// the thread knows of is behind that end.
bool KernelRun::bytes_have_come(const ptx::Agents& agents, std::uint32_t engine,
                                std::uint32_t time) {
  Warp& warp = warp_of(agents);
  settle(warp);
  bool known = false;
  warp.agent->act(warp.last_site, [&](machine::Machine& m) {
    known =
        m.knows(warp.agent->lane_thread(ptx::first_lane(agents.mask)), engines_[engine], time - 1);
  });
  return known || warp.agent->choose(schedule::DecisionKind::miss, 2) == 0;
}

void KernelRun::before_barrier(const ptx::Agents& agents) {
  Warp& warp = warp_of(agents);
  settle(warp);
  warp.accessed = true;
  warp.agent->point();
}

namespace {

std::uint64_t value_of(const ptx::BarrierStep& step) {
  return machine::pack({step.completed, step.joined, step.arrives, step.raises});
}

machine::Wanted wanted_of(const ptx::BarrierLook& look) {
  return look.parity ? machine::over(look.phase) : machine::more_than(look.phase);
}

}  // namespace

// Which arrivals form a generation is an order of steps at one place: each joins the generation
// that those before it leave open.
void KernelRun::barrier_step(const ptx::Agents& agents, const ptx::BarrierStep& step) {
  ends_round(agents.block);
  if (!settings_.first_shared) return;
  Warp& warp = warp_of(agents);
  const machine::Address at = barrier_address(agents, step.mbarrier, step.place);
  const machine::Access how = machine::step_access(settings_.barrier_site);
  had_effect(warp, agents.mask);
  warp.moved = true;
  warp.agent->act(how.site, [&](machine::Machine& m) {
    m.step_of_barrier(warp.agent->lane_thread(ptx::first_lane(agents.mask)), at, how,
                      value_of(step));
  });
}

ptx::GlobalMemory::Look KernelRun::look(const ptx::Agents& agents, const ptx::BarrierLook& look,
                                        bool waits, bool now) {
  ends_round(agents.block);  // phases are no place of memory
  if (!settings_.first_shared) return now ? Look::complete : Look::incomplete;
  Warp& warp = warp_of(agents);
  const machine::Address at = barrier_address(agents, true, look.place);
  const machine::Access how = machine::step_access(kernel_.site[look.instruction]);
  const machine::Wanted wanted = wanted_of(look);
  const std::uint32_t lane = ptx::first_lane(agents.mask);
  if (!waits && look.lookahead != nullptr &&
      goes_round(warp, {agents, look.instruction, look.standing, *look.lookahead, nullptr, at,
                        look.attempts})) {
    const bool phases =
        std::all_of(warp.iteration.begin(), warp.iteration.end(),
                    [](const schedule::LaneWait& w) { return w.await.access.of_barrier; });
    if (phases) warp.looking |= agents.mask;
    return Look::later;
  }
  Look result = Look::complete;
  std::uint64_t value = 0;
  warp.agent->act(how.site, [&](machine::Machine& m) {
    const machine::ThreadId thread = warp.agent->lane_thread(lane);
    m.open_region(at.region);
    if (!waits) {
      read_change(m, warp, lane, at, how, reinterpret_cast<std::byte*>(&value));
      if (!wanted.holds(value)) result = Look::incomplete;
    } else if (!m.can_end(thread, at, how, wanted, false) ||
               !m.try_read_until(thread, at, how, wanted)) {
      result = Look::later;
    }
  });
  warp.waiting &= ~agents.mask;
  warp.looking &= ~agents.mask;
  if (!waits && look.lookahead != nullptr) {
    Seen seen;
    seen.instruction = look.instruction;
    seen.lane = lane;
    seen.at = at;
    seen.access = how;
    seen.value = value;
    // A phase that is complete shows the other parity again once the next one is.
    seen.wanted = seen.needs = result == Look::incomplete ? wanted
                               : look.parity              ? machine::over(look.phase ^ 1U)
                                                          : machine::more_than(~std::uint32_t{0});
    remember(warp, seen);
  }
  if (result != Look::later) return result;
  warp.waiting |= agents.mask;
  warp.looking |= agents.mask;
  ptx::each_lane(agents.mask, [&](std::uint32_t i) {
    schedule::LaneWait w;
    w.lane = i;
    w.thread = warp.agent->lane_thread(i);
    w.await = {at, how, wanted, false};
    w.needs = wanted;
    waits_of(warp, i).assign(1, w);
  });
  return result;
}

void KernelRun::park(Warp& warp) {
  tell_phases();
  warp.parked = true;
  // Threads that have exited do not come to a barrier that counts, and others need not.
  using schedule::Parked;
  Parked at = Parked::block;
  switch (execution_.waits_at(warp.block, warp.index)) {
    case ptx::WaitsAt::block:
      break;
    case ptx::WaitsAt::cluster:
      at = Parked::cluster;
      break;
    case ptx::WaitsAt::counted:
      at = Parked::open;
      break;
  }
  warp.agent->park(settings_.barrier_site, at);
  warp.parked = false;
}

void KernelRun::tell_phase(Warp& warp) {
  const auto phase = execution_.awaited_phase(warp.block, warp.index);
  if (phase) tell_wait(warp, {0, *phase, true});
}

void KernelRun::tell_wait(Warp& warp, const PhaseWait& wait) {
  const auto free = std::find_if(std::begin(fault_.phases), std::end(fault_.phases),
                                 [](const PhaseWait& w) { return !w.used; });
  if (free == std::end(fault_.phases)) return;
  *free = wait;
  free->label = schedule::pack(warp.agent->label());
  warp.told = &*free;
}

void KernelRun::tell_phases() {
  for (const Warp& warp : warps_) {
    if (warp.told == nullptr || warp.told->what != PhaseWait::What::phase) continue;
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

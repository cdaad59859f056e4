#include "emulator/cases/kernel_run.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "emulator/ptx/atomic.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::cases {
namespace {

using machine::Order;
using ptx::each_lane;
using ptx::first_lane;
using ptx::kLanes;
using ptx::Operation;

// With more lanes than these at work an instruction moves data: one point for all of them.
constexpr int kMostSingleLanes = 8;
// Reads that a lane's polls are compared with; a loop over more places is not recognised.
constexpr std::size_t kMostPolls = 64;
// Looks at one place among those, all alike, after which a loop waits although its registers
// differ.
constexpr std::size_t kMostLooks = 8;

machine::Scope scope_of(ptx::Scope scope) {
  switch (scope) {
    case ptx::Scope::cta:
      return machine::Scope::cta;
    case ptx::Scope::cluster:
      return machine::Scope::cluster;
    case ptx::Scope::gpu:
      return machine::Scope::gpu;
    case ptx::Scope::none:
    case ptx::Scope::sys:
      break;
  }
  return machine::Scope::sys;
}

bool is_packed(ptx::Type type) {
  return type == ptx::Type::bf16x2 || type == ptx::Type::f16x2 || type == ptx::Type::u16x2 ||
         type == ptx::Type::s16x2;
}

ptx::Type half_of(ptx::Type type) {
  switch (type) {
    case ptx::Type::bf16x2:
      return ptx::Type::bf16;
    case ptx::Type::f16x2:
      return ptx::Type::f16;
    case ptx::Type::u16x2:
      return ptx::Type::u16;
    case ptx::Type::s16x2:
      return ptx::Type::s16;
    default:
      return type;
  }
}

bool is_multimem(Operation operation) { return operation >= Operation::multimem_load_reduce; }

machine::Access how_of(const ptx::Access& access, std::uint16_t site) {
  machine::Access how;
  switch (access.semantics) {
    case ptx::Semantics::weak:
      how.order = Order::weak;
      break;
    case ptx::Semantics::relaxed:
    case ptx::Semantics::volatile_:
      how.order = Order::relaxed;
      break;
    case ptx::Semantics::acquire:
      how.order = Order::acquire;
      break;
    case ptx::Semantics::release:
      how.order = Order::release;
      break;
    case ptx::Semantics::acq_rel:
    case ptx::Semantics::sc:
      how.order = Order::acq_rel;
      break;
  }
  // Atomics are strong whatever is written.
  if (how.order == Order::weak &&
      (access.operation == Operation::atomic || access.operation == Operation::reduce)) {
    how.order = Order::relaxed;
  }
  how.scope =
      access.semantics == ptx::Semantics::volatile_ ? machine::Scope::sys : scope_of(access.scope);
  how.element = static_cast<std::uint8_t>(is_packed(access.type) ? 2 : size_of(access.type));
  how.proxy = is_multimem(access.operation) ? machine::Proxy::multicast : machine::Proxy::generic;
  how.reaches_output = access.operation == Operation::multimem_load_reduce;
  how.site = site;
  return how;
}

// The operator of an atomic, for the machine's plain function pointer. Set before each use.
struct Operator {
  ptx::Combine combine;
  ptx::Type type;
  bool flush;
};
thread_local Operator current_operator;
std::uint64_t apply(std::uint64_t old, std::uint64_t operand) {
  return ptx::apply_atomic(current_operator.combine, current_operator.type, current_operator.flush,
                           old, operand);
}

void mix(std::uint64_t& digest, std::uint64_t value) {
  digest = (digest ^ value) * 0x9FB21C651E98DF25ULL;
  digest ^= digest >> 29;
}

machine::FindingKind kind_of(ptx::FaultKind kind) {
  switch (kind) {
    case ptx::FaultKind::out_of_bounds:
      return machine::FindingKind::out_of_bounds;
    case ptx::FaultKind::misaligned:
      return machine::FindingKind::misaligned;
    case ptx::FaultKind::multicast_misuse:
      return machine::FindingKind::multicast_misuse;
    case ptx::FaultKind::shared_race:
      return machine::FindingKind::data_race;
    case ptx::FaultKind::barrier_divergence:
    case ptx::FaultKind::undefined:  // exchanges with lanes that do not take part
      return machine::FindingKind::barrier_divergence;
    case ptx::FaultKind::budget:
      return machine::FindingKind::livelock;
    case ptx::FaultKind::deadlock:
      return machine::FindingKind::deadlock;
    case ptx::FaultKind::trap:
    case ptx::FaultKind::assertion:
      break;
  }
  return machine::FindingKind::rank_lost;  // a trap ends the rank's context
}

std::string hex(std::uint64_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  do out.insert(out.begin(), kDigits[value & 15U]);
  while ((value >>= 4) != 0);
  return "0x" + out;
}

ptx::LaunchConfig with_budget(ptx::LaunchConfig config, std::uint64_t budget) {
  config.instruction_budget = budget;
  return config;
}

}  // namespace

namespace {

// 16 bytes of each lane, as they lie in memory, to and from a request's registers.
template <class F>
void each_element(const ptx::Request& request, F f) {
  const std::uint32_t size = size_of(request.access->type);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (std::uint32_t e = 0; e < request.access->elements; ++e) {
      f(std::size_t{lane} * machine::kLineBytes + std::size_t{e} * size,
        request.elements[e] + std::size_t{lane} * request.lane_bytes, size);
    }
  }
}

void take_lanes(const ptx::Request& request, const std::byte* from, std::uint64_t& digest) {
  each_element(request, [&](std::size_t at, std::byte* to, std::uint32_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, from + at, size);
    std::memcpy(to, &value, request.lane_bytes);
    mix(digest, value);
  });
}

void give_lanes(const ptx::Request& request, std::byte* to) {
  each_element(request, [&](std::size_t at, const std::byte* from, std::uint32_t size) {
    std::memcpy(to + at, from, size);
  });
}

}  // namespace

KernelRun::KernelRun(const Kernel& kernel, ptx::LaunchConfig config, const Space& space,
                     const Settings& settings, FaultText& fault)
    : kernel_(kernel),
      space_(space),
      settings_(settings),
      fault_(fault),
      clock_{1, 0},
      execution_(kernel.program, with_budget(std::move(config), settings.budget), *this, clock_) {
  const ptx::LaunchConfig& c = execution_.config();
  threads_a_block_ = c.block[0] * c.block[1] * c.block[2];
  warps_a_block_ = (threads_a_block_ + kLanes - 1) / kLanes;
  const std::uint32_t blocks = c.grid[0] * c.grid[1] * c.grid[2];
  warps_.resize(std::size_t{blocks} * warps_a_block_);
  for (std::uint32_t b = 0; b < blocks; ++b) {
    for (std::uint32_t w = 0; w < warps_a_block_; ++w) {
      Warp& warp = warps_[b * warps_a_block_ + w];
      warp.block = b;
      warp.index = w;
    }
  }
}

std::vector<schedule::Agent::ChildSpec> KernelRun::children() {
  std::vector<schedule::Agent::ChildSpec> out;
  out.reserve(warps_.size());
  for (Warp& warp : warps_) {
    schedule::Agent::ChildSpec child;
    child.role = settings_.role;
    child.block = warp.block;
    child.index = warp.index * kLanes;
    child.lanes = std::min(kLanes, threads_a_block_ - child.index);
    // Blocks of a cluster share a scope of their own.
    const auto& cluster = execution_.config().cluster;
    const std::uint32_t size = cluster[0] * cluster[1] * cluster[2];
    if (size > 1) child.cluster = static_cast<std::uint16_t>(warp.block / size + 1);
    child.body = [this, &warp](schedule::Agent& agent) {
      warp.agent = &agent;
      run(warp);
    };
    out.push_back(std::move(child));
  }
  return out;
}

// -- the warp's agent -----------------------------------------------------------------------------

void KernelRun::run(Warp& warp) {
  schedule::Agent& agent = *warp.agent;
  std::vector<ptx::SplitRef> ready;
  try {
    while (!execution_.exited(warp.block, warp.index)) {
      execution_.ready(warp.block, warp.index, ready);
      std::erase_if(ready, [&](const ptx::SplitRef& s) { return (s.mask & ~warp.waiting) == 0; });
      if (warp.polled_at != execution_.events()) warp.polled = 0;
      if (warp.waiting == 0) {
        std::erase_if(ready, [&](const ptx::SplitRef& s) { return (s.mask & ~warp.polled) == 0; });
      }
      if (ready.empty()) {
        if (execution_.wake(warp.block, warp.index)) {
          agent.point();
        } else if (warp.waiting != 0) {
          wait(warp);
        } else {
          park(warp);
        }
        continue;
      }
      const auto count = static_cast<std::uint32_t>(ready.size());
      const std::uint32_t which =
          count > 1 ? agent.choose(schedule::DecisionKind::split, count) : 0;
      warp.accessed = false;
      const std::uint64_t events = execution_.events();
      const ptx::Stop stop = execution_.run(ready[which]);
      settle(warp);
      if (stop == ptx::Stop::yielded) {
        note_polls(warp, events);
        if (warp.waiting != 0) agent.point();
      } else if (stop == ptx::Stop::quantum && !warp.accessed) {
        agent.point();
      }
      if (execution_.events() != events_) wake_others(warp);
    }
    settle(warp);
  } catch (const ptx::KernelFault& fault) {
    settle(warp);
    report(warp, fault);
  }
}

void KernelRun::wait(Warp& warp) {
  std::vector<schedule::LaneWait> waits;
  each_lane(warp.waiting, [&](std::uint32_t lane) {
    for (schedule::LaneWait w : warp.waits[lane]) {
      w.missed = (warp.missed >> lane & 1U) != 0;
      waits.push_back(w);
    }
  });
  const auto free_of = [&](std::uint32_t lanes) {
    std::uint32_t free = 0;
    warp.agent->act(warp.last_site, [&](machine::Machine& m) {
      each_lane(lanes, [&](std::uint32_t lane) {
        if (may_go_on(m, warp, lane)) free |= 1U << lane;
      });
    });
    return free;
  };
  // A lane that can go on by now, because another one of the warp wrote there, needs no wait.
  std::uint32_t free = free_of(warp.waiting & ~warp.missed);
  if (free == 0) {
    warp.agent->await_any(waits);
    warp.missed = 0;
    free = free_of(warp.waiting);
  }
  warp.waiting &= ~free;
}

void KernelRun::report(Warp& warp, const ptx::KernelFault& fault) {
  const ptx::KernelFault::Place& at = fault.place();
  const std::size_t most = sizeof fault_.text - 1;
  const std::string what = fault.what();
  machine::Finding f;
  f.kind = kind_of(fault.kind());
  schedule::AgentLabel label = warp.agent->label();
  label.block = at.block;
  label.index = at.thread;
  f.second.label = schedule::pack(label);
  f.second.site =
      at.instruction < kernel_.site.size() ? kernel_.site[at.instruction] : settings_.barrier_site;
  f.second.region = warp.fault_at.region;
  f.second.offset = warp.fault_at.offset;
  f.has_second = true;
  warp.agent->act(f.second.site, [&](machine::Machine& m) {
    std::memcpy(fault_.text, what.data(), std::min(what.size(), most));
    fault_.text[std::min(what.size(), most)] = '\0';
    m.report(f);
  });
}

// -- barriers -------------------------------------------------------------------------------------

void KernelRun::arrive(ptx::SyncToken token, const ptx::Agents& agents) {
  Warp& warp = warp_of(agents);
  settle(warp);
  Token& t = tokens_[token];
  each_lane(agents.mask,
            [&](std::uint32_t lane) { t.arrived.push_back(warp.agent->lane_thread(lane)); });
}

void KernelRun::depart(ptx::SyncToken token, const ptx::Agents& agents) {
  departures_.push_back({token, agents});
}

void KernelRun::settle(Warp& warp) {
  while (!departures_.empty()) {
    const ptx::SyncToken number = departures_.front().token;
    const auto other_token = [&](const Departure& d) { return d.token != number; };
    const auto rest = std::stable_partition(departures_.begin(), departures_.end(),
                                            [&](const Departure& d) { return !other_token(d); });
    departing_.clear();
    for (auto d = departures_.begin(); d != rest; ++d) departing_.push_back(d->agents);
    departures_.erase(departures_.begin(), rest);
    Token& token = tokens_[number];
    syncing_.clear();
    for (const ptx::Agents& a : departing_) {
      const Warp& other = warp_of(a);
      each_lane(a.mask,
                [&](std::uint32_t lane) { syncing_.push_back(other.agent->lane_thread(lane)); });
    }
    const bool whole =
        token.arrived.size() == threads_a_block_ && syncing_.size() == threads_a_block_;
    warp.agent->act(settings_.barrier_site, [&](machine::Machine& m) {
      m.barrier(token.arrived, syncing_, whole, settings_.barrier_site);
      for (const ptx::Agents& a : departing_) {
        Warp& other = warp_of(a);
        if (&other != &warp && other.parked) warp.agent->unpark(*other.agent);
      }
      token.departed += static_cast<std::uint32_t>(syncing_.size());
      const bool phase = (number & ptx::kPhaseToken) != 0;
      if (!phase && token.departed >= token.arrived.size()) tokens_.erase(number);
    });
  }
}

void KernelRun::fence(const ptx::Agents& agents, const ptx::Fence& fence,
                      std::uint32_t instruction) {
  Warp& warp = warp_of(agents);
  settle(warp);
  if (fence.proxy != ptx::Proxy::generic && fence.proxy != ptx::Proxy::alias) return;
  const std::uint16_t site = warp.last_site = kernel_.site[instruction];
  warp.accessed = true;
  warp.agent->point();
  warp.agent->act(site, [&](machine::Machine& m) {
    each_lane(agents.mask, [&](std::uint32_t lane) {
      const machine::ThreadId thread = warp.agent->lane_thread(lane);
      if (fence.proxy == ptx::Proxy::alias) {
        m.alias_fence(thread, site);
      } else {
        m.fence(thread,
                fence.semantics == ptx::Semantics::sc ? machine::Machine::Fence::sc
                                                      : machine::Machine::Fence::acq_rel,
                scope_of(fence.scope), site);
      }
    });
  });
}

// -- polls ----------------------------------------------------------------------------------------

bool KernelRun::may_go_on(machine::Machine& machine, const Warp& warp, std::uint32_t lane) const {
  for (const schedule::LaneWait& w : warp.waits[lane]) {
    if (!warp.agent->late(w.await.at) &&
        machine.can_end(w.thread, w.await.at, w.await.access, w.await.wanted, w.await.by_rmw)) {
      return true;
    }
  }
  return false;
}

// Whether the lane was here before in the same state, with no effect since: then `waits` says what
// would have to change. `digest` is for remember().
bool KernelRun::repeats(Warp& warp, const ptx::Request& request, std::uint32_t lane,
                        machine::Address at, std::uint64_t& digest) {
  digest = 0;
  if (warp.polls.empty() || request.registers == nullptr) return false;
  std::vector<Poll>& polls = warp.polls[lane];
  bool seen = false;
  for (const Poll& p : polls) {
    seen = seen || (p.instruction == request.instruction && p.at.region == at.region &&
                    p.at.offset == at.offset);
  }
  if (!seen) return false;
  digest = ptx::lane_digest(kernel_.program, request, lane) | 1U;
  const auto same_place = [&](const Poll& p) {
    return p.instruction == request.instruction && p.at.offset == at.offset &&
           p.at.region == at.region;
  };
  std::size_t from = polls.size();
  for (std::size_t i = polls.size(); i-- > 0;) {
    if (!same_place(polls[i]) || polls[i].digest != digest) continue;
    from = i;
    break;
  }
  if (from == polls.size() && polls.size() == kMostPolls) {
    // A loop that counts its attempts: it has looked often enough.
    std::size_t looks = 0;
    bool alike = true;
    for (std::size_t i = 0; i < polls.size(); ++i) {
      if (!same_place(polls[i])) continue;
      alike = alike && (looks == 0 || polls[i].value == polls[from].value);
      ++looks;
      from = i;
    }
    if (!alike || looks < kMostLooks) from = polls.size();
  }
  if (from == polls.size()) return false;
  std::vector<schedule::LaneWait>& waits = warp.waits[lane];
  waits.clear();
  for (std::size_t j = from; j < polls.size(); ++j) {
    schedule::LaneWait w;
    w.lane = lane;
    w.thread = warp.agent->lane_thread(lane);
    w.await = {
        polls[j].at, polls[j].access, {machine::Compare::ne, polls[j].value}, polls[j].by_rmw};
    w.needs = polls[j].needs;
    waits.push_back(w);
  }
  // What follows repeats these.
  polls.resize(from);
  return true;
}

// Whether a lane has polled at this place by this instruction, with no effect since: repeats() then
// has to look.
bool KernelRun::was_here(const Warp& warp, const ptx::Request& request,
                         const Target* targets) const {
  if (warp.polls.empty()) return false;
  bool here = false;
  each_lane(request.agents.mask, [&](std::uint32_t lane) {
    const machine::Address at = place(targets[lane]);
    for (const Poll& p : warp.polls[lane]) {
      here = here || (p.instruction == request.instruction && p.at.offset == at.offset &&
                      p.at.region == at.region);
    }
  });
  return here;
}

void KernelRun::remember(Warp& warp, std::uint32_t lane, const Poll& poll) {
  if (warp.polls.empty()) {
    warp.polls.resize(kLanes);
    warp.waits.resize(kLanes);
  }
  std::vector<Poll>& polls = warp.polls[lane];
  if (polls.size() == kMostPolls) polls.erase(polls.begin());
  polls.push_back(poll);
}

// A lane that overwrites what it polled last took that signal.
void KernelRun::note_taken(machine::Machine& machine, const Warp& warp, std::uint32_t lane,
                           const Target& target, std::uint32_t bytes) const {
  if (warp.polls.empty()) return;
  const machine::Address at = place(target);
  const std::vector<Poll>& polls = warp.polls[lane];
  for (auto p = polls.rbegin(); p != polls.rend(); ++p) {
    if (p->by_rmw || p->at.region != at.region || p->at.offset < at.offset ||
        p->at.offset - at.offset >= bytes) {
      continue;
    }
    return machine.took(p->at, p->access.element, p->value);
  }
}

void KernelRun::had_effect(Warp& warp, std::uint32_t lanes) {
  if (warp.polls.empty()) return;
  each_lane(lanes, [&](std::uint32_t lane) { warp.polls[lane].clear(); });
  warp.armed &= ~lanes;
}

const schedule::LaneWait* KernelRun::armed_wait(const Warp& warp, std::uint32_t lane,
                                                machine::Address at, bool by_rmw) const {
  if ((warp.armed >> lane & 1U) == 0) return nullptr;
  for (const schedule::LaneWait& w : warp.waits[lane]) {
    if (w.await.at.region == at.region && w.await.at.offset == at.offset &&
        w.await.by_rmw == by_rmw) {
      return &w;
    }
  }
  return nullptr;
}

bool KernelRun::read_change(machine::Machine& machine, Warp& warp, std::uint32_t lane,
                            machine::Address at, const machine::Access& how, std::byte* out) {
  const machine::ThreadId thread = warp.agent->lane_thread(lane);
  const schedule::LaneWait* w = armed_wait(warp, lane, at, false);
  if (w == nullptr || !machine.can_end(thread, at, how, w->await.wanted, false)) {
    machine.read(thread, at, how, {out, how.element});
    return true;
  }
  const auto value = machine.try_read_until(thread, at, how, w->await.wanted);
  if (!value) return false;
  std::memcpy(out, &*value, how.element);
  return true;
}

// -- accesses -------------------------------------------------------------------------------------

void KernelRun::locate(Warp& warp, const ptx::Request& request, Target* targets) {
  const ptx::Access& access = *request.access;
  const std::uint32_t bytes = access.bytes();
  const bool multicast = is_multimem(access.operation);
  each_lane(request.agents.mask, [&](std::uint32_t lane) {
    const std::uint64_t address = request.address[lane];
    const Mapping* mapping = space_.find(address);
    warp.fault_at = {~0u, address};
    if (mapping == nullptr) {
      throw ptx::Fault(ptx::FaultKind::out_of_bounds,
                       "access of " + std::to_string(bytes) + " bytes at " + hex(address) +
                           ", where no memory is",
                       lane);
    }
    const std::uint64_t offset = address - mapping->address;
    warp.fault_at = {settings_.first_region + mapping->regions[0], offset};
    if (offset > mapping->bytes || mapping->bytes - offset < bytes) {
      throw ptx::Fault(ptx::FaultKind::out_of_bounds,
                       "access of " + std::to_string(bytes) + " bytes at byte " +
                           std::to_string(offset) + " of '" + mapping->name + "', which has " +
                           std::to_string(mapping->bytes),
                       lane);
    }
    if (mapping->multicast != multicast) {
      throw ptx::Fault(
          ptx::FaultKind::multicast_misuse,
          multicast ? "multimem access to '" + mapping->name + "', which is no multicast address"
                    : "access to '" + mapping->name + "' that is no multimem one",
          lane);
    }
    if (address % bytes != 0) {
      throw ptx::Fault(ptx::FaultKind::misaligned,
                       "byte " + std::to_string(offset) + " of '" + mapping->name +
                           "' is not aligned to " + std::to_string(bytes) + " bytes",
                       lane);
    }
    targets[lane] = {mapping, offset};
  });
}

void KernelRun::access(ptx::Request& request) {
  Warp& warp = warp_of(request.agents);
  settle(warp);
  warp.accessed = true;
  const std::uint16_t site = kernel_.site[request.instruction];
  warp.last_site = site;
  Target targets[kLanes];
  locate(warp, request, targets);
  const machine::Access how = how_of(*request.access, site);
  switch (request.access->operation) {
    case Operation::load:
      return load(warp, request, targets, how);
    case Operation::store:
    case Operation::multimem_store:
      return store(warp, request, targets, how);
    case Operation::atomic:
      return atomic(warp, request, targets, how);
    case Operation::reduce:
    case Operation::multimem_reduce:
      return reduce(warp, request, targets, how);
    case Operation::multimem_load_reduce:
      return load_reduce(warp, request, targets, how);
  }
}

std::uint32_t KernelRun::choose_lanes(Warp& warp, std::uint32_t lanes) {
  const auto count = static_cast<std::uint32_t>(std::popcount(lanes));
  if (count < 2) return lanes;
  std::uint32_t ahead = warp.agent->choose(schedule::DecisionKind::split, count + 1);
  if (ahead == 0) return lanes;
  while (--ahead > 0) lanes &= lanes - 1;
  return lanes & (0U - lanes);
}

template <class F>
void KernelRun::write_lanes(Warp& warp, ptx::Request& request, const machine::Access& how,
                            bool together, const F& one) {
  schedule::Agent& agent = *warp.agent;
  const std::uint32_t lanes = request.agents.mask;
  if (together) {
    agent.act(how.site, [&](machine::Machine& m) {
      each_lane(lanes, [&](std::uint32_t lane) { one(m, lane); });
    });
    request.completed = lanes;
    return;
  }
  std::uint32_t todo = choose_lanes(warp, lanes);
  request.completed = todo;
  for (bool first = true; todo != 0; todo &= todo - 1, first = false) {
    if (!first) agent.point();
    agent.act(how.site, [&](machine::Machine& m) { one(m, first_lane(todo)); });
  }
}

bool KernelRun::side_by_side(const ptx::Request& request, const Target* targets) const {
  if (request.agents.mask != 0xFFFFFFFFU || request.access->bytes() != machine::kLineBytes ||
      targets[0].offset % machine::kBlockBytes != 0) {
    return false;
  }
  bool right = true;
  for (std::uint32_t i = 1; i < kLanes; ++i) {
    right = right && targets[i].mapping == targets[0].mapping &&
            targets[i].offset == targets[0].offset + i * machine::kLineBytes;
  }
  return right;
}

void KernelRun::load_lane(machine::Machine& machine, Warp& warp, ptx::Request& request,
                          std::uint32_t lane, const Target& target, const machine::Access& how,
                          std::uint64_t& digest) {
  const ptx::Access& access = *request.access;
  alignas(16) std::byte buffer[64];
  const std::uint32_t bytes = access.bytes();
  machine.read(warp.agent->lane_thread(lane), place(target), how, {buffer, bytes});
  const std::uint32_t size = size_of(access.type);
  if (size == 4 && request.lane_bytes == 4) {  // most of them
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::uint32_t value;
      std::memcpy(&value, buffer + e * 4, 4);
      std::memcpy(request.elements[e] + lane * 4, &value, 4);
      mix(digest, value);
    }
    return;
  }
  for (std::uint32_t e = 0; e < access.elements; ++e) {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer + e * size, size);
    std::memcpy(request.elements[e] + lane * request.lane_bytes, &value, request.lane_bytes);
    mix(digest, value);
  }
}

void KernelRun::load(Warp& warp, ptx::Request& request, const Target* targets,
                     const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  const std::uint32_t lanes = request.agents.mask;
  std::uint64_t digest = 0;
  if (how.order == Order::weak) {
    if (agent.weak_points()) agent.point();
    agent.act(how.site, [&](machine::Machine& m) {
      if (side_by_side(request, targets)) {
        moved_.resize(std::max<std::size_t>(moved_.size(), machine::kBlockBytes));
        const machine::Address from[] = {place(targets[0])};
        if (m.read_together(agent.lane_threads(), from, how,
                            std::span(moved_).first(machine::kBlockBytes))) {
          take_lanes(request, moved_.data(), digest);
          agent.note(digest);
          return;
        }
      }
      each_lane(lanes, [&](std::uint32_t lane) {
        load_lane(m, warp, request, lane, targets[lane], how, digest);
      });
      agent.note(digest);
    });
    request.completed = lanes;
    return;
  }
  agent.point();
  const bool single = std::popcount(lanes) <= kMostSingleLanes;
  std::uint32_t todo = lanes;
  const auto keep = [&](std::uint32_t lane, std::uint64_t state) {
    const std::uint32_t size = how.element;
    for (std::uint32_t e = 0; e < request.access->elements; ++e) {
      Poll poll;
      poll.instruction = request.instruction;
      poll.digest = e == 0 ? state : 0;
      poll.at = place(targets[lane]);
      poll.at.offset += e * size;
      poll.access = how;
      std::memcpy(&poll.value, request.elements[e] + lane * request.lane_bytes,
                  std::min(size, request.lane_bytes));
      poll.needs = {machine::Compare::ne, poll.value};
      remember(warp, lane, poll);
    }
  };
  const auto one = [&](machine::Machine& m, std::uint32_t lane) {
    const std::uint32_t bit = 1U << lane;
    if ((warp.waiting & bit) != 0 && ((warp.missed & bit) != 0 || !may_go_on(m, warp, lane)))
      return;
    std::uint64_t state = 0;
    if (repeats(warp, request, lane, place(targets[lane]), state)) {
      warp.armed |= bit;
      if (!may_go_on(m, warp, lane)) {
        warp.waiting |= bit;
        return;
      }
    }
    if ((warp.armed & bit) == 0) {
      const bool old = agent.late(place(targets[lane]));
      if (old) agent.read_old(true);
      load_lane(m, warp, request, lane, targets[lane], how, digest);
      if (old) agent.read_old(false);
    } else {
      std::byte elements[ptx::kMostElements][8] = {};
      for (std::uint32_t e = 0; e < request.access->elements; ++e) {
        machine::Address at = place(targets[lane]);
        at.offset += e * how.element;
        if (!read_change(m, warp, lane, at, how, elements[e])) {
          warp.waiting |= bit;
          warp.missed |= bit;
          return;
        }
      }
      bool changed = false;
      for (std::uint32_t e = 0; e < request.access->elements; ++e) {
        std::memcpy(request.elements[e] + lane * request.lane_bytes, elements[e],
                    request.lane_bytes);
        std::uint64_t value = 0;
        std::memcpy(&value, elements[e], 8);
        mix(digest, value);
        machine::Address at = place(targets[lane]);
        at.offset += e * how.element;
        const schedule::LaneWait* w = armed_wait(warp, lane, at, false);
        changed = changed || w == nullptr || w->await.wanted.holds(value);
      }
      if (changed) warp.armed &= ~bit;
    }
    warp.waiting &= ~bit;
    request.completed |= bit;
    keep(lane, state);
  };
  if (!single) {
    agent.act(how.site, [&](machine::Machine& m) {
      if ((warp.waiting | warp.armed) == 0 && side_by_side(request, targets) &&
          !was_here(warp, request, targets)) {
        moved_.resize(std::max<std::size_t>(moved_.size(), machine::kBlockBytes));
        const machine::Address from[] = {place(targets[0])};
        if (m.read_together(agent.lane_threads(), from, how,
                            std::span(moved_).first(machine::kBlockBytes))) {
          take_lanes(request, moved_.data(), digest);
          request.completed = lanes;
          each_lane(lanes, [&](std::uint32_t lane) { keep(lane, 0); });
          agent.note(digest);
          return;
        }
      }
      each_lane(lanes, [&](std::uint32_t lane) { one(m, lane); });
      agent.note(digest);
    });
    return;
  }
  todo = choose_lanes(warp, todo);
  for (bool first = true; todo != 0; todo &= todo - 1, first = false) {
    if (!first) agent.point();
    agent.act(how.site, [&](machine::Machine& m) {
      digest = 0;
      one(m, first_lane(todo));
      agent.note(digest);
    });
  }
}

void KernelRun::store(Warp& warp, ptx::Request& request, const Target* targets,
                      const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  const ptx::Access& access = *request.access;
  const std::uint32_t size = size_of(access.type);
  const std::uint32_t bytes = access.bytes();
  const std::uint32_t lanes = request.agents.mask;
  const auto one = [&](machine::Machine& m, std::uint32_t lane) {
    alignas(16) std::byte buffer[64];
    if (size == 4 && request.lane_bytes == 4) {
      for (std::uint32_t e = 0; e < access.elements; ++e) {
        std::memcpy(buffer + e * 4, request.elements[e] + lane * 4, 4);
      }
    } else {
      for (std::uint32_t e = 0; e < access.elements; ++e) {
        std::memcpy(buffer + e * size, request.elements[e] + lane * request.lane_bytes, size);
      }
    }
    note_taken(m, warp, lane, targets[lane], access.bytes());
    const std::size_t replicas = targets[lane].mapping->regions.size();
    for (std::size_t r = 0; r < replicas; ++r) {
      m.write(agent.lane_thread(lane), place(targets[lane], r), how, {buffer, bytes});
      if (how.order != Order::weak) agent.signalled(place(targets[lane], r), bytes);
    }
  };
  const bool strong = how.order != Order::weak;
  if (strong || agent.weak_points()) agent.point();
  if (side_by_side(request, targets)) {
    const auto to = places(targets[0]);
    moved_.resize(std::max<std::size_t>(moved_.size(), machine::kBlockBytes));
    give_lanes(request, moved_.data());
    agent.act(how.site, [&](machine::Machine& m) {
      if (!m.write_together(agent.lane_threads(), to, how,
                            std::span(moved_).first(machine::kBlockBytes))) {
        each_lane(lanes, [&](std::uint32_t lane) { one(m, lane); });
      }
    });
    request.completed = lanes;
    return;
  }
  write_lanes(warp, request, how, !strong || std::popcount(lanes) > kMostSingleLanes, one);
  had_effect(warp, lanes);
}

void KernelRun::atomic(Warp& warp, ptx::Request& request, const Target* targets,
                       const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  const ptx::Access& access = *request.access;
  const std::uint32_t size = size_of(access.type);
  const bool cas = access.combine == ptx::Combine::cas;
  const auto one = [&](machine::Machine& m, std::uint32_t lane) {
    const auto operand_at = [&](const std::byte* slot, std::uint32_t bytes) {
      std::uint64_t value = 0;
      std::memcpy(&value, slot + lane * request.lane_bytes, bytes);
      return value;
    };
    const machine::Address at = place(targets[lane]);
    const machine::ThreadId thread = agent.lane_thread(lane);
    const std::uint32_t bit = 1U << lane;
    if ((warp.waiting & bit) != 0 && ((warp.missed & bit) != 0 || !may_go_on(m, warp, lane)))
      return;
    std::uint64_t state = 0;
    if (repeats(warp, request, lane, at, state)) {
      warp.armed |= bit;
      if (!may_go_on(m, warp, lane)) {
        warp.waiting |= bit;
        return;
      }
    }
    std::optional<std::uint64_t> ended;
    if (cas && armed_wait(warp, lane, at, true) != nullptr) {
      const std::uint64_t compare = operand_at(request.compare, size);
      if (m.can_end(thread, at, how, {machine::Compare::eq, compare}, true)) {
        ended = m.try_cas_until(thread, at, how, compare, operand_at(request.elements[0], size));
        if (!ended) {
          warp.waiting |= bit;
          warp.missed |= bit;
          return;
        }
      }
    }
    warp.armed &= ~bit;
    warp.waiting &= ~bit;
    request.completed |= bit;
    bool effect = false;
    std::uint64_t first_old = 0;
    Poll poll;
    poll.instruction = request.instruction;
    poll.digest = state;
    poll.at = at;
    poll.access = how;
    poll.by_rmw = true;
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      const std::uint64_t operand = operand_at(request.elements[e], size);
      std::uint64_t old = 0;
      if (cas) {
        const std::uint64_t compare = operand_at(request.compare, size);
        old = ended ? *ended : m.cas(thread, at, how, compare, operand);
        effect = old == compare;
        poll.needs = {machine::Compare::eq, compare};
      } else {
        // Packed halves are operations of their own.
        for (std::uint32_t part = 0; part < size; part += how.element) {
          current_operator = {access.combine, half_of(access.type), access.flush};
          machine::Address element = at;
          element.offset += e * size + part;
          const std::uint64_t kept = how.element == 8 ? ~0ULL : (1ULL << (8 * how.element)) - 1;
          const std::uint64_t mine = operand >> (8 * part) & kept;
          const std::uint64_t there = m.rmw(thread, element, how, mine, apply);
          effect = effect || (apply(there, mine) & kept) != there;
          old |= there << (8 * part);
        }
        poll.needs = {machine::Compare::ne, old};
      }
      if (e == 0) first_old = old;
    }
    if (request.result != nullptr) {
      std::memcpy(request.result + lane * request.lane_bytes, &first_old, request.lane_bytes);
    }
    agent.note(first_old);
    if (effect) agent.signalled(at, access.bytes());
    if (effect || access.elements > 1 || how.element != size) {
      had_effect(warp, 1U << lane);
    } else {
      poll.value = first_old;
      remember(warp, lane, poll);
    }
  };
  agent.point();
  std::uint32_t todo = request.agents.mask;
  if (std::popcount(todo) > kMostSingleLanes) {
    agent.act(how.site, [&](machine::Machine& m) {
      each_lane(todo, [&](std::uint32_t lane) { one(m, lane); });
    });
    return;
  }
  todo = choose_lanes(warp, todo);
  for (bool first = true; todo != 0; todo &= todo - 1, first = false) {
    if (!first) agent.point();
    agent.act(how.site, [&](machine::Machine& m) { one(m, first_lane(todo)); });
  }
}

void KernelRun::reduce(Warp& warp, ptx::Request& request, const Target* targets,
                       const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  const ptx::Access& access = *request.access;
  const std::uint32_t size = size_of(access.type);
  const std::uint32_t lanes = request.agents.mask;
  const auto one = [&](machine::Machine& m, std::uint32_t lane) {
    alignas(16) std::byte buffer[64];
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::memcpy(buffer + e * size, request.elements[e] + lane * request.lane_bytes, size);
    }
    current_operator = {access.combine, half_of(access.type), access.flush};
    const std::size_t replicas = targets[lane].mapping->regions.size();
    for (std::size_t r = 0; r < replicas; ++r) {
      m.reduce(agent.lane_thread(lane), place(targets[lane], r), how, {buffer, access.bytes()},
               apply);
      agent.signalled(place(targets[lane], r), access.bytes());
    }
  };
  had_effect(warp, lanes);
  agent.point();
  write_lanes(warp, request, how, std::popcount(lanes) > kMostSingleLanes, one);
}

void KernelRun::load_reduce(Warp& warp, ptx::Request& request, const Target* targets,
                            const machine::Access& how) {
  schedule::Agent& agent = *warp.agent;
  const ptx::Access& access = *request.access;
  const std::uint32_t lanes = request.agents.mask;
  const std::uint32_t size = size_of(access.type);
  const std::size_t replicas = targets[first_lane(lanes)].mapping->regions.size();
  if (how.order != Order::weak || agent.weak_points()) agent.point();
  std::uint64_t seed = settings_.seed;
  mix(seed, request.address[first_lane(lanes)]);
  mix(seed, request.instruction);
  if (settings_.policy == ptx::SumPolicy::seeded_order && replicas > 1) {
    seed += std::uint64_t{agent.choose(schedule::DecisionKind::sum, 64)} << 32;
  }
  // [replica][element][lane], in words of 32 bits or pairs of them.
  const std::size_t words = size == 8 ? 2 : 1;
  const std::size_t stride = kLanes * words;
  if (gathered_.size() < replicas * access.elements * stride) {
    gathered_.resize(replicas * access.elements * stride);
  }
  agent.act(how.site, [&](machine::Machine& m) {
    std::uint64_t digest = 0;
    if (size == 4 && side_by_side(request, targets)) {
      const std::size_t bytes = replicas * machine::kBlockBytes;
      if (moved_.size() < bytes) moved_.resize(bytes);
      if (m.read_together(agent.lane_threads(), places(targets[0]), how,
                          std::span(moved_).first(bytes))) {
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
          for (std::size_t r = 0; r < replicas; ++r) {
            std::uint32_t parts[4];
            std::memcpy(parts, &moved_[r * machine::kBlockBytes + lane * machine::kLineBytes], 16);
            for (std::uint32_t e = 0; e < 4; ++e) gathered_[(r * 4 + e) * stride + lane] = parts[e];
            mix(digest, std::uint64_t{parts[1]} << 32 | parts[0]);
            mix(digest, std::uint64_t{parts[3]} << 32 | parts[2]);
          }
        }
        agent.note(digest);
        return;
      }
    }
    each_lane(lanes, [&](std::uint32_t lane) {
      alignas(16) std::byte buffer[64];
      for (std::size_t r = 0; r < replicas; ++r) {
        m.read(agent.lane_thread(lane), place(targets[lane], r), how, {buffer, access.bytes()});
        if (access.bytes() == 16 && size == 4) {
          std::uint32_t* const to = &gathered_[r * 4 * stride + lane];
          std::uint32_t parts[4];
          std::memcpy(parts, buffer, 16);
          for (std::uint32_t e = 0; e < 4; ++e) to[e * stride] = parts[e];
          mix(digest, std::uint64_t{parts[1]} << 32 | parts[0]);
          mix(digest, std::uint64_t{parts[3]} << 32 | parts[2]);
          continue;
        }
        for (std::uint32_t e = 0; e < access.elements; ++e) {
          std::uint64_t value = 0;
          std::memcpy(&value, buffer + e * size, size);
          std::memcpy(&gathered_[(r * access.elements + e) * stride + lane * words], &value,
                      words * 4);
          mix(digest, value);
        }
      }
    });
    agent.note(digest);
  });
  constexpr std::size_t kMost = 72;
  for (std::uint32_t e = 0; e < access.elements; ++e) {
    if (size == 4 && request.lane_bytes == 4) {
      const std::uint32_t* rows[kMost];
      alignas(64) std::uint32_t sums[kLanes];
      for (std::size_t r = 0; r < replicas; ++r) {
        rows[r] = &gathered_[(r * access.elements + e) * stride];
      }
      reduce_replica_lanes(access, settings_.policy, seed + e, std::span(rows, replicas), sums);
      each_lane(lanes, [&](std::uint32_t lane) {
        std::memcpy(request.elements[e] + lane * 4, &sums[lane], 4);
      });
      continue;
    }
    each_lane(lanes, [&](std::uint32_t lane) {
      std::uint64_t values[kMost] = {};
      for (std::size_t r = 0; r < replicas; ++r) {
        std::memcpy(&values[r], &gathered_[(r * access.elements + e) * stride + lane * words],
                    size);
      }
      const std::uint64_t sum =
          reduce_replicas(access, settings_.policy, seed + lane + e, std::span(values, replicas));
      std::memcpy(request.elements[e] + lane * request.lane_bytes, &sum, request.lane_bytes);
    });
  }
  request.completed = lanes;
}

}  // namespace ringfence::cases

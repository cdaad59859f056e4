#include "emulator/cases/kernel_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/cases/kernel_detail.hpp"
#include "emulator/ptx/lanes.hpp"
#include "emulator/schedule/runtime.hpp"

namespace ringfence::cases {
namespace {

using ptx::each_lane;
using ptx::kLanes;

// What an instruction does to shared memory.
machine::AccessKind access_kind(const ptx::Program& program, std::uint32_t instruction) {
  const ptx::Op& op = program.ops[instruction];
  if (op.kind == ptx::Kind::mbarrier) return machine::AccessKind::rmw;
  if (op.kind != ptx::Kind::memory) return machine::AccessKind::write;
  switch (program.accesses[op.detail].access.operation) {
    case ptx::Operation::load:
      return machine::AccessKind::read;
    case ptx::Operation::store:
      return machine::AccessKind::write;
    default:
      return machine::AccessKind::rmw;
  }
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
    case ptx::FaultKind::uninitialised_barrier:
      return machine::FindingKind::uninitialised_barrier;
    case ptx::FaultKind::barrier_misuse:
      return machine::FindingKind::barrier_misuse;
    case ptx::FaultKind::cluster_entry:
      return machine::FindingKind::cluster_entry;
    case ptx::FaultKind::cluster_exit:
      return machine::FindingKind::cluster_exit;
    case ptx::FaultKind::barrier_divergence:
    case ptx::FaultKind::undefined:  // exchanges with lanes that do not take part
      return machine::FindingKind::barrier_divergence;
    case ptx::FaultKind::budget:
    case ptx::FaultKind::endless:
      return machine::FindingKind::livelock;
    case ptx::FaultKind::deadlock:
      return machine::FindingKind::deadlock;
    case ptx::FaultKind::trap:
    case ptx::FaultKind::assertion:
      break;
  }
  return machine::FindingKind::rank_lost;  // a trap ends the rank's context
}

ptx::LaunchConfig with_budget(ptx::LaunchConfig config, std::uint64_t budget) {
  config.instruction_budget = budget;
  return config;
}

}  // namespace

KernelRun::KernelRun(const Kernel& kernel, ptx::LaunchConfig config, const Space& space,
                     const Settings& settings, FaultText& fault, ptx::VirtualClock& clock)
    : kernel_(kernel),
      space_(space),
      settings_(settings),
      fault_(fault),
      execution_(kernel.program, with_budget(std::move(config), settings.budget), *this, clock,
                 settings.print) {
  const ptx::LaunchConfig& c = execution_.config();
  threads_a_block_ = c.block[0] * c.block[1] * c.block[2];
  warps_a_block_ = (threads_a_block_ + kLanes - 1) / kLanes;
  const std::uint32_t blocks = c.grid[0] * c.grid[1] * c.grid[2];
  levels_.resize(blocks);
  rounds_.resize(blocks);
  if (settings_.fresh_lines) lines_read_.resize(blocks);
  live_.assign(blocks, warps_a_block_);
  triggered_.resize(blocks);
  untriggered_ = blocks;
  if (settings_.first_shared) {
    shared_.resize(blocks);
    for (std::uint32_t b = 0; b < blocks; ++b) shared_[b].regions = {*settings_.first_shared + b};
  }
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
  std::optional<ptx::KernelFault> met;
  const auto& cluster = execution_.config().cluster;
  if (cluster[0] * cluster[1] * cluster[2] > 1) {
    agent.act(settings_.barrier_site, [&](machine::Machine& m) {
      for (const machine::ThreadId t : agent.lane_threads()) warp.began.push_back(m.time_of(t));
    });
  }
  wait_for_room(warp);
  std::uint32_t closed = 0;  // quanta in a row that registers alone decided
  try {
    while (!execution_.exited(warp.block, warp.index)) {
      if (rounds_[warp.block].asleep) sleep(warp);
      execution_.ready(warp.block, warp.index, ready);
      std::erase_if(ready, [&](const ptx::SplitRef& s) {
        return (s.mask & ~warp.waiting & ~warp.held) == 0;
      });
      if (ready.empty()) {
        if (warp.dependent != 0 && settings_.before->ended) {
          warp.waiting &= ~warp.dependent;
          warp.dependent = 0;
        } else if (warp.dependent != 0 && warp.waiting == warp.dependent) {
          wait_for_launch(warp);
        } else if (execution_.wake(warp.block, warp.index)) {
          agent.yield();
        } else if (warp.waiting != 0) {
          tell_phases();
          wait(warp);
          warp.held = 0;
        } else if (warp.held != 0) {
          warp.held = 0;
        } else {
          park(warp);
        }
        continue;
      }
      parts_.clear();
      for (const ptx::SplitRef& s : ready) parts_.push_back(s.mask & ~warp.waiting & ~warp.held);
      const std::uint32_t which = agent.choose_part(schedule::DecisionKind::split, parts_);
      warp.accessed = false;
      const ptx::Stop stop = execution_.run(ready[which]);
      settle(warp);
      if (stop == ptx::Stop::quantum) agent.still_at_it();
      closed = stop == ptx::Stop::quantum && !warp.accessed ? closed + 1 : 0;
      if (stop == ptx::Stop::yielded || (stop == ptx::Stop::quantum && !warp.accessed)) {
        agent.yield();
      }
      if (execution_.events() != events_) wake_others(warp);
    }
    settle(warp);
    tell_phases();
    ended(warp);
    if (execution_.finished()) close_tokens(warp);
  } catch (const ptx::KernelFault& fault) {
    settle(warp);
    met = fault;
  }
  // Not inside the handler: other agents step meanwhile, with exceptions of their own.
  if (!met) return;
  constexpr std::uint32_t kClosed = 4;
  if (met->kind() != ptx::FaultKind::budget || closed >= kClosed ||
      schedule::Runtime::alone(agent)) {
    return report(warp, *met);
  }
  // A bound, and no end: what it waits for may still come from the others.
  FaultText::keep(fault_.spins, warp.last_site);
  schedule::Runtime::give_up(agent);
}

void KernelRun::wait(Warp& warp) {
  std::vector<schedule::LaneWait> waits;
  const std::uint32_t polling = warp.waiting & ~warp.dependent;
  if (warp.dependent != 0) settings_.before->waiting.push_back(warp.agent);
  each_lane(polling & ~warp.together, [&](std::uint32_t lane) {
    for (schedule::LaneWait w : warp.waits[lane]) {
      w.missed = (warp.missed >> lane & 1U) != 0;
      waits.push_back(w);
    }
  });
  if ((warp.waiting & warp.together) != 0) {
    waits.insert(waits.end(), warp.iteration.begin(), warp.iteration.end());
  }
  const auto free_of = [&](std::uint32_t lanes) {
    std::uint32_t free = 0;
    warp.agent->act(warp.last_site, [&](machine::Machine& m) {
      each_lane(lanes & ~warp.together, [&](std::uint32_t lane) {
        if (may_go_on(m, warp, lane)) free |= 1U << lane;
      });
      const std::uint32_t together = lanes & warp.together;
      if (together != 0 && may_go_on(m, warp, ptx::first_lane(together))) free |= together;
    });
    return free;
  };
  // A lane that can go on by now, because another one of the warp wrote there, needs no wait.
  std::uint32_t free = free_of(polling & ~warp.missed);
  if (free == 0) {
    if (warp.looking != 0) tell_phase(warp);
    if (execution_.config().asks_for_room) {
      fault_.waits_in_turn = static_cast<std::uint16_t>(execution_.config().launch + 1);
    }
    const bool ended = warp.agent->await_any(waits, (polling & warp.may_give_up) != 0);
    if (warp.told != nullptr) warp.told->used = false;
    warp.told = nullptr;
    warp.missed = 0;
    for (schedule::LaneWait& w : warp.iteration) w.missed = false;
    free = free_of(polling);
    if (!ended) {
      warp.gives_up |= polling & warp.may_give_up;
      free |= warp.gives_up;
    }
  }
  warp.waiting &= ~free;
  warp.may_give_up &= ~free;
  if ((free & warp.together) != 0) release_together(warp);
}

// How an instruction accesses memory, if it does.
void KernelRun::describe(std::uint32_t instruction, bool shared, machine::AccessInfo& out) const {
  using machine::AccessKind;
  using Copy = ptx::CopyOp::Form;
  const ptx::Program& program = kernel_.program;
  if (instruction >= program.ops.size()) return;
  const ptx::Op& op = program.ops[instruction];
  if (op.kind == ptx::Kind::matrix_load) {
    const bool stores = program.matrices[op.detail].form == ptx::MatrixOp::Form::store;
    out.kind = stores ? AccessKind::write : AccessKind::read;
  }
  if (op.kind == ptx::Kind::copy_async) {
    const Copy form = program.copies[op.detail].form;
    const bool out_of_shared = form == Copy::bulk_to_global || form == Copy::tensor_to_global;
    out.kind = form == Copy::remote_reduce ? AccessKind::rmw
               : shared == out_of_shared   ? AccessKind::read
                                           : AccessKind::write;
  }
  if (op.kind != ptx::Kind::memory) return;
  const ptx::Access& access = program.accesses[op.detail].access;
  const machine::Access how = how_of(access, 0);
  out.order = how.order;
  out.scope = how.scope;
  out.proxy = how.proxy;
  out.bytes = access.bytes();
  switch (access.operation) {
    case ptx::Operation::load:
    case ptx::Operation::multimem_load_reduce:
      out.kind = AccessKind::read;
      return;
    case ptx::Operation::store:
    case ptx::Operation::multimem_store:
      out.kind = AccessKind::write;
      return;
    case ptx::Operation::atomic:
    case ptx::Operation::reduce:
    case ptx::Operation::multimem_reduce:
      out.kind = AccessKind::rmw;
      return;
  }
}

void KernelRun::report(Warp& warp, const ptx::KernelFault& fault) {
  const ptx::KernelFault::Place& at = fault.place();
  const std::size_t most = sizeof fault_.text - 1;
  std::string what = fault.what();
  machine::Finding f;
  f.kind = kind_of(fault.kind());
  schedule::AgentLabel label = warp.agent->label();
  label.block = at.block;
  label.index = at.thread;
  f.second.site =
      at.instruction < kernel_.site.size() ? kernel_.site[at.instruction] : settings_.barrier_site;
  describe(at.instruction, fault.shared.has_value(), f.second);
  f.second.label = schedule::pack(label);
  const bool access =
      f.kind == machine::FindingKind::out_of_bounds || f.kind == machine::FindingKind::misaligned;
  machine::Address place = warp.fault_at;
  if (access && !warp.refused) place = {~0U, 0};
  // A barrier with a number stands in no memory: the warp's last access is not what is told.
  if (f.kind == machine::FindingKind::barrier_misuse &&
      at.instruction < kernel_.program.ops.size() &&
      kernel_.program.ops[at.instruction].kind == ptx::Kind::barrier) {
    f.second.kind = machine::AccessKind::none;
    place = {~0U, 0};
  }
  if (fault.shared && settings_.first_shared) {
    place = shared_address(ptx::shared_place(fault.shared->block, fault.shared->offset));
    f.second.bytes = fault.shared->bytes;
  }
  if (fault.shared && f.kind == machine::FindingKind::out_of_bounds) {
    what += shared_advice(*fault.shared);
  }
  f.second.region = place.region;
  f.second.offset = place.offset;
  f.has_second = true;
  if (fault.other) {
    label.block = fault.other->block;
    label.index = fault.other->thread;
    f.first.label = schedule::pack(label);
    f.first.site = kernel_.site[fault.other->instruction];
    f.has_first = true;
    using Kind = ptx::OtherAccess::Kind;
    using machine::AccessKind;
    const bool placed = fault.other->kind != Kind::none || fault.other->later_is_access;
    const machine::Address both =
        placed ? shared_address(fault.other->place) : machine::Address{~0U, 0};
    f.first.region = f.second.region = both.region;
    f.first.offset = f.second.offset = both.offset;
    if (fault.kind() == ptx::FaultKind::uninitialised_barrier) {
      // An init or inval is a write of it, any other use an update.
      const bool wrote = fault.other->kind == Kind::write;
      f.first.kind = wrote ? AccessKind::write : AccessKind::rmw;
      f.second.kind = wrote ? AccessKind::rmw : AccessKind::write;
    } else {
      f.first.kind = fault.other->kind == Kind::none
                         ? AccessKind::none
                         : access_kind(kernel_.program, fault.other->instruction);
      f.second.kind = fault.other->later_is_access ? access_kind(kernel_.program, at.instruction)
                                                   : AccessKind::none;
    }
  }
  warp.agent->act(f.second.site, [&](machine::Machine&) {
    std::memcpy(fault_.text, what.data(), std::min(what.size(), most));
    fault_.text[std::min(what.size(), most)] = '\0';
  });
  warp.agent->fail(f);
}

// -- barriers -------------------------------------------------------------------------------------

namespace {

// Policy mbarrier-remote.
machine::Scope scope_of(const machine::Machine& machine, const ptx::SyncOrder& order) {
  const bool wide =
      order.open && machine.policy().mbarrier_remote == machine::MbarrierRemote::shipped;
  return wide ? std::max(order.scope, machine::Scope::cluster) : order.scope;
}

}  // namespace

void KernelRun::arrive(ptx::SyncToken token, const ptx::Agents& agents, bool stays,
                       const ptx::SyncOrder& order) {
  Warp& warp = warp_of(agents);
  settle(warp);
  Token& t = tokens_[token];
  if (stays) {
    warp.agent->arrived(&t, agents.mask);
    each_lane(agents.mask,
              [&](std::uint32_t lane) { t.staying.push_back(warp.agent->lane_thread(lane)); });
    return;
  }
  warp.moved = true;
  warp.agent->act(settings_.barrier_site, [&](machine::Machine& m) {
    warp.agent->arrived(&t, agents.mask);
    if (!t.meeting) t.meeting = m.open_meeting();
    arriving_.clear();
    each_lane(agents.mask,
              [&](std::uint32_t lane) { arriving_.push_back(warp.agent->lane_thread(lane)); });
    m.arrive(*t.meeting, arriving_, order.order, scope_of(m, order));
  });
}

void KernelRun::depart(ptx::SyncToken token, const ptx::Agents& agents,
                       const ptx::SyncOrder& order) {
  departures_.push_back({token, agents, order});
}

void KernelRun::released_by_exit(ptx::SyncToken token, const ptx::Agents& exited) {
  Warp& warp = warp_of(exited);
  if (warp.agent != nullptr) warp.agent->arrived(&tokens_[token], exited.mask);
}

void KernelRun::uneven_barrier(const ptx::Agents& agents, const ptx::UnevenBarrier& barrier) {
  const Warp& warp = warp_of(agents);
  bool allowed = false;
  warp.agent->act(settings_.barrier_site, [&](machine::Machine& m) {
    allowed = m.policy().syncthreads == machine::SyncThreads::warp;
  });
  if (allowed) {
    return remark({barrier.exited ? Remark::Kind::exited : Remark::Kind::two_barriers,
                   kernel_.site[barrier.instruction], kernel_.site[barrier.other_instruction]});
  }
  ptx::Fault fault(
      ptx::FaultKind::barrier_divergence,
      fmt::format(
          "thread {} waits at line {} for all threads of block {} at barrier {}, and thread "
          "{} {} line {}",
          barrier.thread, kernel_.program.ops[barrier.instruction].line, agents.block,
          barrier.number, barrier.other, barrier.exited ? "has exited at" : "comes to it from",
          kernel_.program.ops[barrier.other_instruction].line));
  fault.set_place({barrier.thread, barrier.instruction});
  ptx::OtherAccess other;
  other.block = agents.block;
  other.thread = barrier.other;
  other.instruction = barrier.other_instruction;
  other.kind = ptx::OtherAccess::Kind::none;
  other.later_is_access = false;
  fault.set_other(other);
  throw fault;
}

void KernelRun::retire(ptx::SyncToken token) { retired_.push_back(token); }

void KernelRun::settle(Warp& warp) {
  while (!departures_.empty()) {
    const ptx::SyncToken number = departures_.front().token;
    const ptx::SyncOrder order = departures_.front().order;
    const auto rest = std::stable_partition(
        departures_.begin(), departures_.end(),
        [&](const Departure& d) { return d.token == number && d.order == order; });
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
        token.staying.size() == threads_a_block_ && syncing_.size() == threads_a_block_;
    warp.agent->act(settings_.barrier_site, [&](machine::Machine& m) {
      if (token.meeting) {
        m.arrive(*token.meeting, token.staying);
        token.staying.clear();
        m.depart(*token.meeting, syncing_, settings_.barrier_site,
                 machine::acquires(order.order) ? machine::Order::acquire : order.order,
                 scope_of(m, order));
      } else {
        m.barrier(token.staying, syncing_, whole, settings_.barrier_site);
      }
      if (whole) levels_[departing_.front().block] = m.time_of(syncing_.front());
      for (const ptx::Agents& a : departing_) {
        Warp& other = warp_of(a);
        other.moved = true;
        other.agent->left(&token, a.mask);
        if (&other != &warp && other.parked) warp.agent->unpark(*other.agent);
      }
    });
  }
  for (; !retired_.empty(); retired_.pop_back()) {
    const auto token = tokens_.find(retired_.back());
    if (token == tokens_.end()) continue;
    close(warp, token->second);
    tokens_.erase(token);
  }
}

void KernelRun::close(Warp& warp, const Token& token) {
  warp.agent->closed(&token);
  if (const auto meeting = token.meeting) {
    warp.agent->act(settings_.barrier_site,
                    [&](machine::Machine& m) { m.close_meeting(*meeting); });
  }
}

// What nobody departs from any more: the last warp has ended. A search knows tokens by where they
// are, and another launch's may come to be there.
void KernelRun::close_tokens(Warp& warp) {
  for (const auto& [number, token] : tokens_) close(warp, token);
  tokens_.clear();
  warp.agent->closed(&outside_);
  for (const Trigger& block : triggered_) warp.agent->closed(&block);
  for (const std::uint32_t& block : live_) warp.agent->closed(&block);
}

// In which order the lanes of one instruction make their fences, where an exhaustive search asks.
std::vector<std::uint32_t> KernelRun::fence_order(Warp& warp, std::uint32_t lanes, bool sc) {
  constexpr int kMostFences = 4;  // whose orders are 24
  std::vector<std::uint32_t> order;
  const bool asks = sc && std::popcount(lanes) <= kMostFences && warp.agent->drops_looks();
  while (lanes != 0) {
    parts_.clear();
    each_lane(lanes, [&](std::uint32_t lane) { parts_.push_back(1U << lane); });
    const std::uint32_t which =
        asks ? warp.agent->choose_part(schedule::DecisionKind::behind, parts_, true) : 0;
    order.push_back(ptx::first_lane(parts_[which]));
    lanes &= ~parts_[which];
  }
  return order;
}

void KernelRun::fence(const ptx::Agents& agents, const ptx::Fence& fence,
                      std::uint32_t instruction) {
  Warp& warp = warp_of(agents);
  settle(warp);
  if (fence.proxy == ptx::Proxy::async) {
    warp.moved = true;
    warp.agent->act(settings_.barrier_site, [&](machine::Machine& m) {
      each_lane(agents.mask, [&](std::uint32_t i) {
        m.async_fence(warp.agent->lane_thread(i), fence.global, fence.shared);
      });
    });
    return;
  }
  if (fence.proxy != ptx::Proxy::generic && fence.proxy != ptx::Proxy::alias) return;
  if (fence.inits_only) {
    warp.agent->act(settings_.barrier_site, [&](machine::Machine& m) {
      each_lane(agents.mask, [&](std::uint32_t i) { m.fence_inits(warp.agent->lane_thread(i)); });
    });
    return;
  }
  const std::uint16_t site = warp.last_site = kernel_.site[instruction];
  warp.accessed = warp.moved = true;
  using Kind = machine::Machine::Fence;
  const bool alias = fence.proxy == ptx::Proxy::alias;
  // PTX ISA 8.8: fence.acquire begins no release pattern, fence.release ends no acquire pattern.
  const Kind kind = alias                                ? Kind::acq_rel
                    : fence.order == ptx::Order::sc      ? Kind::sc
                    : fence.order == ptx::Order::acquire ? Kind::acquire
                    : fence.order == ptx::Order::release ? Kind::release
                                                         : Kind::acq_rel;
  warp.agent->point_at_fence(kind);
  const std::vector<std::uint32_t> order = fence_order(warp, agents.mask, kind == Kind::sc);
  warp.agent->act(site, [&](machine::Machine& m) {
    for (const std::uint32_t lane : order) {
      const machine::ThreadId thread = warp.agent->lane_thread(lane);
      if (alias) {
        m.alias_fence(thread, site);
      } else {
        m.fence(thread, kind, fence.scope, site);
      }
    }
  });
}

}  // namespace ringfence::cases

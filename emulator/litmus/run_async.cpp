// Barriers with phases, and bulk copies, on the machine. A step at such a barrier is an event of a
// place of its own, as in a compiled kernel (emulator/cases/async.cpp).

#include <algorithm>

#include "emulator/litmus/polls.hpp"
#include "emulator/litmus/run.hpp"
#include "emulator/litmus/values.hpp"
#include "emulator/machine/barrier_step.hpp"

namespace ringfence::litmus {
namespace {

std::uint32_t parity_of(int parity) { return static_cast<std::uint32_t>(parity); }

std::pair<int, int> cluster_key(const Thread& t) {
  return {t.gpu, t.cluster ? *t.cluster : -1 - t.cta};
}

// PTX, barrier.cluster: all threads of the cluster that have not ended. Those without the
// instruction are taken for ended.
bool meets_cluster(const Thread& t) {
  return std::any_of(t.instructions.begin(), t.instructions.end(), [](const Instruction& i) {
    return std::holds_alternative<ClusterBarrier>(i.what);
  });
}

}  // namespace

void LitmusProgram::find_phases() {
  asynchronous_ = is_asynchronous(test_);
  for (std::size_t l = 0; l < test_.locations.size(); ++l) {
    if (test_.locations[l].arrivals > 0) mbarriers_[static_cast<LocationId>(l)];
  }
  for (const Thread& t : test_.threads) {
    if (meets_cluster(t)) clusters_[cluster_key(t)];
  }
}

void LitmusProgram::add_cluster_barriers(machine::Machine& machine) {
  if (clusters_.empty()) return;
  const machine::RegionId region = machine.add_region({.rank = 0, .bytes = 8 * clusters_.size()});
  std::uint64_t offset = 0;
  for (auto& [key, phases] : clusters_) {
    phases.at = {region, offset};
    offset += 8;
  }
}

void LitmusProgram::begin_phases(machine::Machine& machine) {
  const auto begin = [](Phases& p, std::uint32_t count, machine::Address at) {
    p = {};  // the machine has closed the meetings
    p.count = p.pending = count;
    p.at = at;
  };
  machine.use_async_proxy(asynchronous_);
  for (auto& [id, p] : mbarriers_) {
    begin(p, static_cast<std::uint32_t>(test_.locations[index(id)].arrivals),
          {regions_[index(id)], 0});
  }
  for (auto& [key, p] : clusters_) {
    std::uint32_t members = 0;
    for (const Thread& t : test_.threads) {
      if (meets_cluster(t) && cluster_key(t) == key) ++members;
    }
    begin(p, members, p.at);
  }
}

LitmusProgram::Phases& LitmusProgram::cluster_of(std::size_t thread) {
  return clusters_.at(cluster_key(test_.threads[thread]));
}

void LitmusProgram::undefined(std::size_t thread, const std::string& what) const {
  const Position at = test_.threads[thread].instructions[states_[thread].next].at;
  throw std::runtime_error(std::to_string(at.line) + ":" + std::to_string(at.column) + ": P" +
                           std::to_string(thread) + " " + what +
                           " in some order of arrivals, which is undefined");
}

void LitmusProgram::run_asynchronous(schedule::Agent& agent, std::size_t thread,
                                     const Instruction& i, std::uint16_t site) {
  ThreadState& s = states_[thread];
  ++s.changes;
  if (const auto* barrier = std::get_if<Mbarrier>(&i.what)) {
    execute(agent, thread, *barrier, site);
  } else if (const auto* cluster = std::get_if<ClusterBarrier>(&i.what)) {
    execute(agent, thread, *cluster, site);
  } else if (const auto* copy = std::get_if<Copy>(&i.what)) {
    execute(agent, thread, *copy, site);
  } else if (const auto* wait = std::get_if<GroupWait>(&i.what)) {
    // PTX, cp.async.bulk.wait_group N: what the thread's copies did is done, for it, but for the
    // last N.
    const auto open = static_cast<std::int64_t>(s.groups.size());
    const auto end = s.groups.begin() + std::max<std::int64_t>(open - wait->pending, 0);
    agent.act(site, [&](machine::Machine& m) {
      const machine::ThreadId me = agent.lane_thread(0);
      for (auto g = s.groups.begin(); g != end; ++g) {
        m.observe({&me, 1}, g->engine, wait->reads_only ? g->read : g->ended);
      }
    });
    if (!wait->reads_only) s.groups.erase(s.groups.begin(), end);
  } else {
    agent.act(site, [&](machine::Machine& m) { m.async_fence(agent.lane_thread(0), true, true); });
  }
}

void LitmusProgram::tell_step(schedule::Agent& agent, const Phases& p, std::uint32_t joined,
                              bool arrives, std::uint16_t site) {
  agent.act(site, [&](machine::Machine& m) {
    m.step_of_barrier(agent.lane_thread(0), p.at, machine::step_access(site),
                      machine::pack({p.complete, joined, arrives, false}));
  });
}

void LitmusProgram::complete_if_due(Phases& p) {
  if (p.pending != 0 || p.bytes != 0) return;
  ++p.complete;
  p.pending = p.count;
  p.awaited = false;
  p.ended_by = std::exchange(p.came, std::nullopt);
  p.seen_by = 0;
  p.meetings.emplace_back();
}

void LitmusProgram::arrive(schedule::Agent& agent, std::size_t thread, Phases& p,
                           const Mbarrier& how, std::uint16_t site) {
  agent.point();
  if (p.pending == 0) undefined(thread, "arrives at a phase that has all its arrivals");
  // PTX ISA 9.7.15.16.5.1.
  if (!p.awaited) undefined(thread, "arrives in a phase before anybody saw the last one complete");
  auto& meeting = p.meetings.back();
  const std::uint32_t joined = p.complete + 1;
  p.bytes += how.bytes;
  --p.pending;
  complete_if_due(p);
  tell_step(agent, p, joined, true, site);
  agent.act(site, [&](machine::Machine& m) {
    const machine::ThreadId me = agent.lane_thread(0);
    agent.arrived(&meeting, 1);
    if (!meeting) meeting = m.open_meeting();
    m.arrive(*meeting, {&me, 1}, how.order, how.scope);
  });
}

void LitmusProgram::depart(schedule::Agent& agent, Phases& p, std::uint32_t phase, Order order,
                           Scope scope, std::uint16_t site) {
  p.awaited = true;
  auto& meeting = p.meetings[phase];
  if (!meeting) return;
  agent.act(site, [&](machine::Machine& m) {
    const machine::ThreadId me = agent.lane_thread(0);
    agent.left(&meeting, 1);
    m.depart(*meeting, {&me, 1}, site, order, scope);
  });
}

// One look. A copy may take any time: that its bytes have come is a choice, as long as nothing that
// the thread knows of is behind their end.
bool LitmusProgram::sees_over(schedule::Agent& agent, std::size_t thread, Phases& p, int parity,
                              std::uint16_t site) {
  agent.point();
  std::uint64_t value = 0;
  bool known = true;
  agent.act(site, [&](machine::Machine& m) {
    const machine::ThreadId me = agent.lane_thread(0);
    m.read(me, p.at, machine::step_access(site), std::as_writable_bytes(std::span(&value, 1)));
    if (p.ended_by) known = m.knows(me, p.ended_by->first, p.ended_by->second - 1);
  });
  if (!machine::over(parity_of(parity)).holds(value)) return false;
  const std::uint64_t mine = std::uint64_t{1} << thread;
  if (!known && (p.seen_by & mine) == 0 && agent.choose(schedule::DecisionKind::miss, 2) != 0) {
    return false;
  }
  p.seen_by |= mine;
  return true;
}

void LitmusProgram::execute(schedule::Agent& agent, std::size_t thread, const Mbarrier& barrier,
                            std::uint16_t site) {
  using Form = Mbarrier::Form;
  Phases& p = mbarriers_.at(barrier.object);
  if (barrier.form == Form::Arrive) return arrive(agent, thread, p, barrier, site);
  bool seen = true;
  if (barrier.form == Form::Wait) {
    agent.await(p.at, machine::step_access(site), machine::over(parity_of(barrier.parity)));
  } else {
    seen = sees_over(agent, thread, p, barrier.parity, site);
    ThreadState& s = states_[thread];
    s.registers[index(barrier.destination)] = seen ? 1 : 0;
    s.from[index(barrier.destination)] = 0;
    straight_ = false;
  }
  // A fresh one: no phase ended.
  if (seen && p.complete > 0) {
    depart(agent, p, p.complete - 1, barrier.order, barrier.scope, site);
  }
}

void LitmusProgram::execute(schedule::Agent& agent, std::size_t thread,
                            const ClusterBarrier& barrier, std::uint16_t site) {
  Phases& p = cluster_of(thread);
  ThreadState& s = states_[thread];
  if (!barrier.wait) {
    s.cluster_phase = p.complete;
    Mbarrier how;
    how.order = barrier.order;
    how.scope = Scope::cluster;
    p.awaited = true;  // who arrives has waited for its own last phase
    return arrive(agent, thread, p, how, site);
  }
  agent.await(p.at, machine::step_access(site), machine::more_than(s.cluster_phase));
  depart(agent, p, s.cluster_phase, Order::acquire, Scope::cluster, site);
}

// A thread of the mbarrier's block: one that waits there, or else the issuer.
const Thread& LitmusProgram::waits_at(LocationId mbarrier, const Thread& issuer) const {
  for (const Thread& t : test_.threads) {
    for (const Instruction& i : t.instructions) {
      const auto* m = std::get_if<Mbarrier>(&i.what);
      if (m != nullptr && m->object == mbarrier && m->form != Mbarrier::Form::Arrive) return t;
    }
  }
  return issuer;
}

// What its issuer did before precedes a copy; what comes after it in program order does not follow
// it (PTX ISA 8.9.1.1). So a thread of the machine that nobody else has makes its accesses.
void LitmusProgram::execute(schedule::Agent& agent, std::size_t thread, const Copy& copy,
                            std::uint16_t site) {
  ThreadState& s = states_[thread];
  const Place from = place(thread, copy.from, Proxy::Generic, {});
  const Place to = place(thread, copy.to, Proxy::Generic, {});
  const Type type = type_at(to, {});
  machine::Access how;
  how.element = static_cast<std::uint8_t>(type.bits / 8);
  how.site = site;
  how.proxy = machine::Proxy::async;
  ThreadState::Group group;
  std::uint64_t value = 0;
  const auto bytes = std::as_writable_bytes(std::span(&value, 1)).first(how.element);
  const auto point = [&](machine::Address at, machine::AccessKind kind) {
    if (agent.weak_points() || kind == machine::AccessKind::rmw) {
      agent.point({at, how.element, kind, site});
    }
  };
  agent.act(site, [&](machine::Machine& m) {
    const machine::ThreadId me = agent.lane_thread(0);
    group.engine = m.issue({&me, 1});
  });
  point(from.at, machine::AccessKind::read);
  agent.act(site, [&](machine::Machine& m) { m.read(group.engine, from.at, how, bytes); });
  agent.act(site, [&](machine::Machine& m) { group.read = m.advance(group.engine); });
  point(to.at, copy.adds ? machine::AccessKind::rmw : machine::AccessKind::write);
  if (copy.adds) {
    how.order = Order::relaxed;
    how.scope = Scope::sys;
    how.combine = Combine::add;
    agent.act(site, [&](machine::Machine& m) {
      m.reduce(group.engine, to.at, how, bytes, combine(Combine::add, type));
    });
  } else {
    agent.act(site, [&](machine::Machine& m) { m.write(group.engine, to.at, how, bytes); });
  }
  agent.act(site, [&](machine::Machine& m) { group.ended = m.advance(group.engine); });
  if (!copy.signals) {
    s.groups.push_back(group);
    return;
  }
  // PTX ISA 9.7.10.28.4.1: the complete-tx is a release of the copy's own accesses alone, whatever
  // the scope of the wait in the mbarrier's block.
  Phases& p = mbarriers_.at(*copy.signals);
  agent.point();
  auto& meeting = p.meetings.back();
  const std::uint32_t joined = p.complete + 1;
  p.bytes -= kCopyBytes;
  p.came = {group.engine, group.ended};
  if (p.pending == 0 && p.bytes < 0) undefined(thread, "completes bytes that no phase expects");
  complete_if_due(p);
  tell_step(agent, p, joined, false, site);
  agent.act(site, [&](machine::Machine& m) {
    agent.arrived(&meeting, 0);  // an engine does
    if (!meeting) meeting = m.open_meeting();
    m.complete(*meeting, group.engine, group.ended,
               placement(waits_at(*copy.signals, test_.threads[thread])));
  });
}

}  // namespace ringfence::litmus

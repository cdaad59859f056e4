// What an access has behind it, what a write hands on and what a read takes in.

#include <algorithm>
#include <vector>

#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

// The cell's messages that precede the access in causality order: base causality (the `seen`
// clock), or an observation by an access that does, also through read-modify-writes. SC per
// location is part of it, since a thread's own accesses precede its later ones. Axiom Causality:
// what is overwritten in causality's past can no longer be read.
MachineState::Past MachineState::past(const Cell& cell, const Now& now) const {
  Past p;
  if (cell.count == 1 && cell.newest->initial) {
    p.known = bit(*cell.newest);
    return p;
  }
  MessageSet read = 0;  // through a later one
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if (m->initial || in_past(now, m->at, m->order, m->scope, m->proxy) ||
        (now.access->fresh && now.thread->view.observed.covers(m->at))) {
      p.known |= bit(*m);
    } else if ((p.known & bit(*m)) == 0 && was_read(now, *m)) {
      p.known |= bit(*m);
    }
    if ((p.known & bit(*m)) == 0) continue;
    p.overwritten |= m->before;
    // A source is behind in the list: its turn is still to come. One reduction of a set does not
    // say what came before it; who read what they leave together knows all of them.
    if (m->source == nullptr || !m->source_strong) continue;
    if (!m->of_set || (read & bit(*m)) != 0 || was_read(now, *m)) {
      read |= bit(*m->source);
      p.known |= bit(*m->source);
    }
  }
  return p;
}

// Whether a read of it is in the access's past.
bool MachineState::was_read(const Now& now, const Message& m) const {
  for (const Observer* o = m.observers; o != nullptr; o = o->next) {
    if (in_past(now, o->at, o->order, o->scope, o->proxy)) return true;
  }
  return false;
}

// With all that coherence puts before them.
MessageSet MachineState::downward(const Cell& cell, MessageSet set) {
  MessageSet out = set;
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if ((set & bit(*m)) != 0) out |= m->before;
  }
  return out;
}

// Axiom Causality, for reads that were made: whether a write between these sets would put a message
// before one that a reader of it had in its past.
bool MachineState::outdates_a_read(const Cell& cell, MessageSet before, MessageSet after) {
  if (after == 0) return false;
  MessageSet behind = after;
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if ((m->before & after) != 0) behind |= bit(*m);
  }
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if ((before & bit(*m)) != 0 && (m->outlives & behind) != 0) return true;
  }
  return false;
}

// Proxy-preserved base causality (PTX ISA 8.9.5, and with the constant, texture and surface proxies
// Lustig et al., 2022): one address and the generic proxy; one address, proxy and block; or fences
// along the path (bridged).
bool MachineState::in_past_by_proxy(const Now& now, const Epoch& at, Order order, Scope scope,
                                    Proxy proxy) const {
  if (!in_past(*now.thread, now.id, at)) return false;
  const Access& a = *now.access;
  const bool strong_sys =
      is_strong(order) && scope == Scope::sys && is_strong(a.order) && a.scope == Scope::sys;
  const bool same = same_address(a.proxy, proxy, strong_sys);
  const ProxyKind mine = kind_of(a.proxy), its = kind_of(proxy);
  // What ld.global.nc may not see is another finding (check_coherent).
  if (mine == ProxyKind::readonly || its == ProxyKind::readonly) return true;
  // The async proxy (8.6; 9.7.10.28.2, 9.7.15.4): what it does later needs a fence.proxy.async on
  // the path from what the generic one did. What it did itself is in the past only by an observed
  // end, which is such a fence.
  if (mine == ProxyKind::async || its == ProxyKind::async) {
    if (mine == ProxyKind::async && its != ProxyKind::async && at.thread != now.id &&
        !async_part(now).covers(at)) {
      return false;
    }
    return same || now.thread->view.bridged.covers(at);
  }
  if (mine == ProxyKind::generic && its == ProxyKind::generic) {
    return same || now.thread->view.bridged.covers(at);
  }
  if (same && mine == its &&
      distance(threads_[at.thread]->place, now.thread->place) == Scope::cta) {
    return true;
  }
  return bridged(now, at, proxy, !same);
}

// Whether fences lead from an earlier access `at`, made as `from`, to this one, in this order: one
// of the earlier one's proxy and block, unless that is generic; if the addresses differ, an alias
// fence; one of this one's proxy and block, unless that is generic.
bool MachineState::bridged(const Now& now, const Epoch& at, Proxy from, bool by_alias) const {
  const auto fence_of = [](ProxyKind kind) {
    return kind == ProxyKind::constant  ? ProxyFence::constant
           : kind == ProxyKind::texture ? ProxyFence::texture
                                        : ProxyFence::surface;
  };
  struct Point {
    Epoch at;
    const Bridge* fence = nullptr;
  };
  std::vector<Point> points{{at, nullptr}};
  // From there by way of a fence of that kind (and block). A launch's boundary is all the fences of
  // a path at once.
  const auto pass = [&](ProxyFence kind, const Placement* block) {
    std::vector<Point> next;
    for (const Bridge& b : bridges_) {
      const bool fits =
          b.boundary ||
          (b.kind == kind && (block == nullptr || distance(b.place, *block) == Scope::cta));
      const auto leads = [&](const Point& p) {
        return p.fence == &b ? b.boundary : b.seen.covers(p.at);
      };
      if (fits && std::any_of(points.begin(), points.end(), leads)) next.push_back({b.at, &b});
    }
    points = std::move(next);
  };
  if (kind_of(from) != ProxyKind::generic) {
    pass(fence_of(kind_of(from)), &threads_[at.thread]->place);
  }
  if (by_alias) pass(ProxyFence::alias, nullptr);
  const ProxyKind mine = kind_of(now.access->proxy);
  if (mine != ProxyKind::generic) pass(fence_of(mine), &now.thread->place);
  return std::any_of(points.begin(), points.end(),
                     [&](const Point& p) { return in_past(*now.thread, now.id, p.at); });
}

// A barrier's steps are atomic, and a look at one sees the last: order of execution is their
// coherence order.
bool MachineState::goes_to_coherence_point(const Access& a) const {
  if (a.of_barrier) return true;
  return policy_.boundary == Boundary::coherent && is_strong(a.order) && a.scope == Scope::sys;
}

bool MachineState::same_address(Proxy a, Proxy b, bool strong_sys) const {
  return machine::same_address(policy_, a, b, strong_sys);
}

bool MachineState::same_proxy(Proxy a, Proxy b, bool strong_sys) const {
  if (a == b) return true;  // what most accesses are: of the generic proxy at the first address
  return kind_of(a) == kind_of(b) && same_address(a, b, strong_sys);
}

// PTX ISA 8.9.4: the first operation of a release pattern and the last one of an acquire pattern,
// which is an access through `end` (or a fence: Proxy::generic), are morally strong as far as
// proxies go. A fence is of the generic proxy, and has no address.
bool MachineState::may_begin(const Entry& e, Proxy end, Scope end_scope) const {
  if (!by_proxy()) return true;
  if (e.fence) return kind_of(end) == ProxyKind::generic;
  return same_proxy(e.proxy, end, e.scope == Scope::sys && end_scope == Scope::sys);
}

// PTX ISA 8.7, "Morally Strong Operations", for an access of another thread (or this one). Every
// atomic asks several times: one copy for each of the below.
[[gnu::always_inline]] inline bool MachineState::morally_strong(const Now& now, ThreadId other,
                                                                Order order, Scope scope,
                                                                Proxy proxy,
                                                                std::uint8_t element) const {
  const Access& a = *now.access;
  if (other == now.id) {  // related by program order
    return !by_proxy() || same_proxy(a.proxy, proxy,
                                     is_strong(a.order) && is_strong(order) &&
                                         a.scope == Scope::sys && scope == Scope::sys);
  }
  if (!is_strong(a.order) || !is_strong(order)) return false;
  const Placement& there = threads_[other]->place;
  const Scope apart = distance(now.thread->place, there);
  if (a.scope < apart) return false;
  if (scope < apart) return false;
  if (element != operation_bytes(a)) return false;  // complete overlap; accesses are aligned
  return same_proxy(a.proxy, proxy, a.scope == Scope::sys && scope == Scope::sys);
}

bool MachineState::morally_strong(const Now& now, const Message& m) const {
  return m.initial || morally_strong(now, m.at.thread, m.order, m.scope, m.proxy, m.element);
}

bool MachineState::morally_strong(ThreadId a, const Access& x, ThreadId b, const Access& y) const {
  const Now now{a, threads_[a], &x, {}, 0, AccessKind::read, 0};
  return morally_strong(now, b, y.order, y.scope, y.proxy, y.element);
}

bool MachineState::morally_strong(const Now& now, const Reader& r) const {
  return morally_strong(now, r.at.thread, r.order, r.scope, r.proxy, r.element);
}

// What the write `m` of this access carries: the thread's fences, its own earlier releases to the
// location, what a read-modify-write takes over, and, if it is a release itself, all it has seen.
void MachineState::publish(const Now& now, Cell& cell, Message& m, const Message* source,
                           bool source_strong) {
  const Thread& t = *now.thread;
  m.observed = t.view.observed;
  const auto add = [&](const Epoch& at, Scope scope, const View& view, Proxy proxy, bool fence) {
    for (Entry* e = m.entries; e != nullptr; e = e->next) {
      // A thread's later pattern publishes all that its earlier one did.
      if (e->at.thread == at.thread && e->at.time >= at.time && e->scope >= scope &&
          (!by_proxy() || (e->proxy == proxy && e->fence == fence))) {
        return;
      }
    }
    Entry* e = entries_.take(nullptr, at, scope, view, proxy, fence);
    e->next = m.entries;
    m.entries = e;
  };
  if (releases(now.access->order)) add(released(m), now.access->scope, t.view, m.proxy, false);
  for (int d = kInits + 1; t.fences_set != 0 && d-- > 0;) {
    if ((t.fences_set >> d & 1) == 0) continue;
    const FenceView& f = t.fences[d];
    add(f.at, scope_of_fence(d), f.view, Proxy::generic, true);
  }
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    if (x->entries == nullptr || x->at.thread != now.id || x->initial) continue;
    if (by_proxy() && !same_address(x->proxy, m.proxy, false)) continue;
    for (const Entry* e = x->entries; e != nullptr; e = e->next) {
      if (e->at.thread == now.id && e->at.time == released(*x).time) {
        add(e->at, e->scope, e->view, e->proxy, e->fence);
      }
    }
  }
  if (source != nullptr && source_strong) {
    for (const Entry* e = source->entries; e != nullptr; e = e->next) {
      add(e->at, e->scope, e->view, e->proxy, e->fence);
    }
  }
}

// Observed time: a strong sys access that reads from another one follows it, relaxed or not; so
// does a reduction, although it acquires nothing.
// Returns whether it did where nothing was observed beyond what was seen: seen becomes the same as
// observed again once what `m` itself released is taken in.
bool MachineState::observe_new(const Now& now, const Message& m) {
  View& view = now.thread->view;
  const bool were_one = view.observed.same_as(view.seen);
  if (m.shared) {  // what the instruction does at other replicas is not observed
    view.observed.join(m.observed);
    view.observed.join_thread(m.at.thread, m.at.slot, m.at.time);
    return false;
  }
  if (alone(m.at)) {
    view.observed.join_beyond(m.observed, m.at.slot, m.at.time + 1);
  } else {
    view.observed.join(m.observed);
    view.observed.join_thread(m.at.thread, m.at.slot, m.at.time + 1);
  }
  return were_one;
}

// Causality by an acquire pattern. A message of the reader's own may bring some as well: its
// reductions hand on what others released.
void MachineState::acquire_from(const Now& now, const Message& m, bool observed_it) {
  const Access& a = *now.access;
  Thread& t = *now.thread;
  for (const Entry* e = m.entries; e != nullptr; e = e->next) {
    if (in_past(t, now.id, e->at)) continue;
    const Placement& other = threads_[e->at.thread]->place;
    if (acquires(a.order) && reaches(a.scope, t.place, other) &&
        reaches(e->scope, other, t.place) && may_begin(*e, a.proxy, a.scope)) {
      if (observed_it && e->at.thread == m.at.thread && e->at.time == m.at.time &&
          e->view.seen.same_as(m.observed)) {
        t.view.seen = t.view.observed;
        t.view.bridged.join(e->view.bridged);
        t.view.async_global.join(e->view.async_global);
        t.view.async_shared.join(e->view.async_shared);
      } else {
        take_entry(t, e->at, e->view);
      }
    } else {
      t.parked.push_back(
          Parked{now.address, e->at, e->scope, e->view, e->proxy, e->fence, a.proxy});
    }
  }
  if (acquires(a.order) && !t.parked.empty()) end_patterns(now);
}

// A strong read followed by an acquire read of the same location is an acquire pattern too,
// whatever the second one returns.
void MachineState::end_patterns(const Now& now) {
  const Access& a = *now.access;
  Thread& t = *now.thread;
  std::erase_if(t.parked, [&](const Parked& p) {
    if (p.where.region != now.address.region || p.where.offset != now.address.offset) return false;
    const Placement& other = threads_[p.at.thread]->place;
    if (!reaches(a.scope, t.place, other) || !reaches(p.scope, other, t.place)) return false;
    if (by_proxy() &&
        (!same_address(p.through, a.proxy, false) || !may_begin(p.as_entry(), a.proxy, a.scope))) {
      return false;
    }
    take_entry(t, p.at, p.view);
    return true;
  });
}

}  // namespace ringfence::machine

// What an access has behind it, what a write hands on and what a read takes in.

#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

// The cell's messages that precede the access in causality order: base causality (the `seen`
// clock), or an observation by an access that does, also through read-modify-writes. SC per
// location is part of it, since a thread's own accesses precede its later ones. Axiom Causality:
// what is overwritten in causality's past can no longer be read.
Machine::Past Machine::past(const Cell& cell, const Now& now) const {
  Past p;
  if (cell.count == 1 && cell.newest->initial) {
    p.known = bit(*cell.newest);
    return p;
  }
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if (m->initial || in_past(now, m->at, m->order, m->scope, m->proxy)) {
      p.known |= bit(*m);
    } else if ((p.known & bit(*m)) == 0) {
      for (const Observer* o = m->observers; o != nullptr; o = o->next) {
        if (in_past(*now.thread, now.id, o->at)) {
          p.known |= bit(*m);
          break;
        }
      }
    }
    if ((p.known & bit(*m)) == 0) continue;
    p.overwritten |= m->before;
    // A source is behind in the list: its turn is still to come.
    if (m->source != nullptr && m->source_strong) p.known |= bit(*m->source);
  }
  return p;
}

// With all that coherence puts before them.
MessageSet Machine::downward(const Cell& cell, MessageSet set) {
  MessageSet out = set;
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if ((set & bit(*m)) != 0) out |= m->before;
  }
  return out;
}

// Axiom Causality, for reads that were made: whether a write between these sets would put a message
// before one that a reader of it had in its past.
bool Machine::outdates_a_read(const Cell& cell, MessageSet before, MessageSet after) {
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

// With alias-data = fence-required, an access through another virtual address is ordered only by
// what an alias fence along the path has bridged (PTX ISA 8.9.5, proxy-preserved base causality).
bool Machine::in_past_by_proxy(const Now& now, const Epoch& at, Order order, Scope scope,
                               Proxy proxy) const {
  const Access& a = *now.access;
  const bool strong_sys =
      is_strong(order) && scope == Scope::sys && is_strong(a.order) && a.scope == Scope::sys;
  if (same_proxy(a.proxy, proxy, strong_sys)) return in_past(*now.thread, now.id, at);
  return now.thread->view.bridged.covers(at);
}

bool Machine::goes_to_coherence_point(const Access& a) const {
  return policy_.boundary == Boundary::coherent && is_strong(a.order) && a.scope == Scope::sys;
}

bool Machine::same_proxy(Proxy a, Proxy b, bool strong_sys) const {
  if (a == b) return true;
  return strong_sys ? policy_.multicast_flag == MulticastFlag::cohere
                    : policy_.alias_data == AliasData::cohere;
}

// PTX ISA 8.7, "Morally Strong Operations", for an access of another thread (or this one).
bool Machine::morally_strong(const Now& now, ThreadId other, Order order, Scope scope, Proxy proxy,
                             std::uint8_t element) const {
  if (other == now.id) return true;  // related by program order
  const Access& a = *now.access;
  if (!is_strong(a.order) || !is_strong(order)) return false;
  const Placement& there = threads_[other]->place;
  if (!reaches(a.scope, now.thread->place, there)) return false;
  if (!reaches(scope, there, now.thread->place)) return false;
  if (element != a.element) return false;  // complete overlap; accesses are naturally aligned
  return same_proxy(a.proxy, proxy, a.scope == Scope::sys && scope == Scope::sys);
}

bool Machine::morally_strong(const Now& now, const Message& m) const {
  return m.initial || morally_strong(now, m.at.thread, m.order, m.scope, m.proxy, m.element);
}

bool Machine::morally_strong(const Now& now, const Reader& r) const {
  return morally_strong(now, r.at.thread, r.order, r.scope, r.proxy, r.element);
}

// What the write `m` of this access carries: the thread's fences, its own earlier releases to the
// location, what a read-modify-write takes over, and, if it is a release itself, all it has seen.
void Machine::publish(const Now& now, Cell& cell, Message& m, const Message* source,
                      bool source_strong) {
  const Thread& t = *now.thread;
  m.observed = t.view.observed;
  const auto add = [&](const Epoch& at, Scope scope, const View& view) {
    for (Entry* e = m.entries; e != nullptr; e = e->next) {
      // A thread's later pattern publishes all that its earlier one did.
      if (e->at.thread == at.thread && e->at.time >= at.time && e->scope >= scope) return;
    }
    Entry* e = entries_.take(nullptr, at, scope, view);
    e->next = m.entries;
    m.entries = e;
  };
  if (releases(now.access->order)) add(m.at, now.access->scope, t.view);
  for (int d = kScopes; t.fences_set != 0 && d-- > 0;) {
    if ((t.fences_set >> d & 1) == 0) continue;
    const FenceView& f = t.fences[d];
    add(f.at, static_cast<Scope>(d), f.view);
  }
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    if (x->entries == nullptr || x->at.thread != now.id || x->initial) continue;
    for (const Entry* e = x->entries; e != nullptr; e = e->next) {
      if (e->at.thread == now.id && e->at.time == x->at.time) {
        add(e->at, e->scope, e->view);
      }
    }
  }
  if (source != nullptr && source_strong) {
    for (const Entry* e = source->entries; e != nullptr; e = e->next) {
      add(e->at, e->scope, e->view);
    }
  }
}

// Observed time: a strong sys access that reads from another one follows it, relaxed or not; so
// does a reduction, although it acquires nothing.
// Returns whether it did where nothing was observed beyond what was seen: seen becomes the same as
// observed again once what `m` itself released is taken in.
bool Machine::observe_new(const Now& now, const Message& m) {
  View& view = now.thread->view;
  const bool were_one = view.observed.same_as(view.seen);
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
void Machine::acquire_from(const Now& now, const Message& m, bool observed_it) {
  const Access& a = *now.access;
  Thread& t = *now.thread;
  for (const Entry* e = m.entries; e != nullptr; e = e->next) {
    if (in_past(t, now.id, e->at)) continue;
    const Placement& other = threads_[e->at.thread]->place;
    if (acquires(a.order) && reaches(a.scope, t.place, other) &&
        reaches(e->scope, other, t.place)) {
      if (observed_it && e->at.thread == m.at.thread && e->at.time == m.at.time &&
          e->view.seen.same_as(m.observed)) {
        t.view.seen = t.view.observed;
        t.view.bridged.join(e->view.bridged);
      } else {
        take_entry(t, e->at, e->view);
      }
    } else {
      t.parked.push_back(Parked{now.address, e->at, e->scope, e->view});
    }
  }
  if (acquires(a.order) && !t.parked.empty()) {
    // A strong read followed by an acquire read of the same location is an acquire pattern too.
    std::erase_if(t.parked, [&](const Parked& p) {
      if (p.where.region != now.address.region || p.where.offset != now.address.offset)
        return false;
      const Placement& other = threads_[p.at.thread]->place;
      if (!reaches(a.scope, t.place, other) || !reaches(p.scope, other, t.place)) return false;
      take_entry(t, p.at, p.view);
      return true;
    });
  }
}

}  // namespace ringfence::machine

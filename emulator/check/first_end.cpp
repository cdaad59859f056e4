// Waits that go on alike behind several writes: explored with the first of these.
//
// Let a wait r, a read, end on w2, and let w1 be an earlier write of w2's thread (or the initial
// content) that r may return too and behind which its program goes on alike (Wanted::alike). Then
// the execution in which r returns w2 is not explored: the one in which it returns w1 is consistent
// too, has the same values everywhere else, and shows at least the same races. For in the second
// one
//
//   - all that r acquires by w1 it acquires by w2: w1 precedes w2 in program order, and each
//     release pattern that w1 publishes has one of the same thread, scope and kind, no earlier,
//     that w2 does (is_published). So base causality and causality order of the second are part of
//     those of the first, but for one thing: r observes w1, which comes before what follows r, and
//     not w2. Coherence, Fence-SC and No Thin Air, which forbid what causality order (or dependency
//     and reads-from) has too much of, stay kept: what follows r has seen w1, or what overwrites
//     it, in the first execution as well. Atomicity says nothing of a read. Two accesses that no
//     order separates in the first are not separated in the second, but for w1 and one behind r of
//     the flag itself. Such a one that is not morally strong with its writes is asked for in each
//     run (note_raced), and turns the rule off for the cell.
//   - new are the edges of from-reads from r to w2 and what coherence puts between w1 and it.
//     Causality: none of those writes precedes r in causality order. What does is in r's past
//     without w2, which is there before r and which no revisit changes unless it drops r, and w1 is
//     not what the past has overwritten (Live::known). Only fence-sc order can add to that past
//     later (a fence that comes later may precede one in the past): with a fence.sc there, all
//     values are explored.
//   - SC per location: of a cycle through a new edge, the part that returns to r does so by program
//     order from an access of the same location before r, which has seen what overwrites w1: it is
//     in r's past again.
//
// At the point of coherence (mode coherent, accesses of scope sys) order of execution is coherence
// order as well: besides program order and reads-from it respects coherence between two writes one
// of which is made there, and from-reads from a read that is. Of a wait that is not made there the
// second execution has no constraint that the first one lacks. Of one that is, the edges from r are
// new. A path from x, the first write behind w1, back to r may come by coherence or from-reads,
// from some access y, into a write e of r's past, made there or not. Where e is in the past of x,
// the path is a cycle in the first execution, too; where y is, it is one as well; and where y is in
// the past of e, that step is none of these. So of each write e of r's past, which is not in that
// of x (has_points_of), it must hold that no y comes before it but those: a flag of another lane of
// the waiter's warp, say, which only its owner reads, and only when it has come. That is about
// accesses that are still to come as well, so it is taken to hold, and each run is asked
// (note_overtaken): whether the place of such an e has an access of another agent that might come
// before e, a write or a read that may return what e overwrites, and is in neither past. One that
// breaks the second execution shows in a run that lacks none of what is needed for it: let A be the
// first execution, y in it, and take from it what y, x, e and r need. Without y that is consistent
// with r reading w1, and so it is with y where y comes last; and there y could have come before e.
// Then the rule is turned off for the place of e. Whose x is has to be known, so only one thread
// may write the cell. That holds for all waits in this mode: of several writers some may race, and
// in which order those come is not explored (points.cpp). Where a run shows another one, the rule
// is turned off for the cell. Each time the search starts again.
//
// The choice is a function of r's past, and so of each graph's prefixes alike: whether the fixed
// rule would have added r as it is (maximal_read) asks the same.

#include <algorithm>

#include "emulator/check/walk.hpp"

namespace ringfence::check {

using machine::bit;
using machine::Message;
using machine::MessageSet;

namespace {

// The key of a cell among those of Sets whose waits have one writer.
CellKey one_writer(CellKey cell) {
  cell.size |= 0x80;
  return cell;
}

// The key of a cell that an access of another agent may come to before a write that is there.
CellKey overtaken(CellKey cell) {
  cell.size |= 0xC0;
  return cell;
}

// The key of a cell that is accessed otherwise behind a wait than waits and their writes do.
CellKey raced(CellKey cell) {
  cell.size |= 0xE0;
  return cell;
}

machine::Access access_of(const Message& m) {
  return {.order = m.order, .scope = m.scope, .element = m.element, .proxy = m.proxy};
}

bool is_plain(const Message& m) {
  return m.initial ? !m.uninitialised
                   : !m.rmw && m.group == 0 && machine::is_strong(m.order) &&
                         m.proxy == machine::Proxy::generic;
}

// Whether a wait that acquires by `m` acquires what it would by `first`.
bool is_published(const Message& first, const Message& m) {
  for (const machine::Entry* a = first.entries; a != nullptr; a = a->next) {
    bool found = false;
    for (const machine::Entry* b = m.entries; b != nullptr && !found; b = b->next) {
      found = b->at.thread == a->at.thread && b->at.time >= a->at.time && b->scope == a->scope &&
              b->proxy == a->proxy && b->fence == a->fence;
    }
    if (!found) return false;
  }
  return true;
}

// Whether one of a cell's writes might stand for another one of its thread.
bool may_stand_in(const machine::Wanted& wanted, const machine::Cell& cell) {
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    const std::uint64_t value = value_of(*m, cell.size);
    if (m->initial || !is_plain(*m) || !wanted.holds(value)) continue;
    for (const Message* x = m->older; x != nullptr; x = x->older) {
      const std::uint64_t its = value_of(*x, cell.size);
      if (is_plain(*x) && (x->initial || x->at.thread == m->at.thread) && wanted.holds(its) &&
          wanted.alike(its, value)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool Sets::has_one_writer(const CellKey& cell) const { return !has(one_writer(cell)); }

void Sets::note_writers(const CellKey& cell) { note(one_writer(cell)); }

bool Sets::is_overtaken(const CellKey& cell) const { return has(overtaken(cell)); }

void Sets::note_overtaken(const CellKey& cell) { note(overtaken(cell)); }

bool Sets::is_raced(const CellKey& cell) const { return has(raced(cell)); }

void Sets::note_raced(const CellKey& cell) { note(raced(cell)); }

bool Walk::takes_first(const Question& q) const {
  const machine::Access& a = *q.access;
  if (sets_.all_off() || q.wanted == nullptr || q.kind != machine::AccessKind::read ||
      foresight_ != nullptr || a.of_barrier || a.reaches_output || a.as_one != nullptr ||
      !machine::is_strong(a.order) || a.proxy != machine::Proxy::generic) {
    return false;
  }
  // A signal that nobody saw before the next one came is a finding.
  if (execution_->machine().region(q.at.region).kind == machine::RegionKind::signal) return false;
  const CellKey key{q.at.region, q.at.offset, q.size};
  if (sets_.is_raced(key) || (is_coherent() && !sets_.has_one_writer(key))) return false;
  const Prefix& past = agents_[current_].past;
  const std::vector<std::uint32_t>& fences = events_at(kFences);
  return std::none_of(fences.begin(), fences.end(), [&](std::uint32_t i) {
    return lives_[i].executed && past.has(lives_[i].event.self);
  });
}

// In mode coherent: see above.
void Walk::check_writers(const CellKey& key, const machine::Cell& cell) {
  if (!is_coherent()) return;
  const Message* other = nullptr;
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if (m->initial) continue;
    if (other == nullptr) other = m;
    if (other->at.thread == m->at.thread) continue;
    const std::vector<std::uint32_t>& events = events_at(key);
    const bool waited = std::any_of(events.begin(), events.end(), [&](std::uint32_t i) {
      const Live& l = lives_[i];
      return l.executed && l.takes_first && may_stand_in(*l.wanted, cell);
    });
    if (waited) sets_.note_writers(key);
    return;
  }
}

// Whether an event is in the past of a write, and not only because lanes of a warp act in one order
// (lanes.cpp).
bool Walk::is_ahead_of(const Live& e, const Live& write) const {
  if (!write.past.has(e.event.self)) return false;
  const bool warps = std::any_of(lanes_of_.begin(), lanes_of_.end(),
                                 [](const auto& lanes) { return lanes.size() > 1; });
  return !warps || (e.lane != kUnknown && write.lane_carried.has(e.lane));
}

// Whether no write in the wait's past is one that `m` might have to come before.
bool Walk::has_points_of(const Live& wait, const Message& m) const {
  const Live* const write = writer(m, wait.event.cell);
  return write != nullptr && std::all_of(lives_.begin(), lives_.end(), [&](const Live& e) {
           return !e.executed || !e.event.write || !wait.ahead.has(e.event.self) ||
                  is_ahead_of(e, *write) || !sets_.is_overtaken(e.event.cell);
         });
}

// Whether an access might come before a write of its cell that is in the past of a wait.
bool Walk::may_overtake(const Live& y, const Live& e) const {
  if (!y.executed || y.event.self.agent == e.event.self.agent || e.past.has(y.event.self)) {
    return false;
  }
  if (y.event.write) return !y.past.has(e.event.self);
  if (!y.event.pointed || y.ahead.has(e.event.self)) return false;
  const machine::Cell* const cell = cell_of(e.event.cell);
  if (cell == nullptr) return true;
  MessageSet earlier = 0, overwritten = 0;
  for (const Message* m = cell->newest; m != nullptr; m = m->older) {
    if (m->initial) continue;
    if (name_of(*m) == e.event.self) earlier = m->before;
    const bool known = m->step < y.steps && (y.known & bit(*m)) != 0;
    if (known || y.ahead.has(name_of(*m))) overwritten |= m->before;
  }
  for (const Message* m = cell->newest; m != nullptr; m = m->older) {
    if ((earlier & ~overwritten & bit(*m)) == 0) continue;
    if (!y.wanted || y.wanted->holds(value_of(*m, y.event.cell.size))) return true;
  }
  return false;
}

// The write behind the first one that the wait may end on: of a cell of one writer. nullptr: there
// is none.
const Walk::Live* Walk::behind_first_end(const Live& wait) const {
  const machine::Cell* const cell = cell_of(wait.event.cell);
  const Live *first = nullptr, *next = nullptr;
  for (const std::uint32_t i : events_at(wait.event.cell)) {
    const Live& x = lives_[i];
    if (!x.executed || !x.event.write || wait.ahead.has(x.event.self)) continue;
    if (first == nullptr || x.event.self < first->event.self) first = &x;
  }
  if (first == nullptr || cell == nullptr) return first;
  // From the last one that is in its past: of those there, all but that are overwritten.
  const Message* ends = nullptr;
  for (const Message* m = cell->newest; m != nullptr; m = m->older) {
    if (wait.wanted->holds(value_of(*m, cell->size))) ends = m;
    if (m->initial || wait.ahead.has(name_of(*m))) break;
  }
  if (ends == nullptr) return nullptr;
  if (ends->initial || wait.ahead.has(name_of(*ends))) return first;
  for (const Message* m = cell->newest; m != ends; m = m->older) next = writer(*m, wait.event.cell);
  return next;
}

// In mode coherent: the writes in a wait's past that another access may come before.
void Walk::note_overtaken() {
  if (!is_coherent() || sets_.all_off()) return;
  for (const Live& wait : lives_) {
    if (!wait.executed || !wait.takes_first || !wait.event.pointed || wait.event.write) continue;
    const Live* const next = behind_first_end(wait);
    if (next == nullptr) continue;
    const machine::Cell* const cell = cell_of(wait.event.cell);
    bool asked = cell == nullptr;  // whether a write may stand for another one
    for (const Live& e : lives_) {
      if (!e.executed || !e.event.write || !wait.ahead.has(e.event.self) || is_ahead_of(e, *next) ||
          sets_.is_overtaken(e.event.cell)) {
        continue;
      }
      const std::vector<std::uint32_t>& others = events_at(e.event.cell);
      const bool may = std::any_of(others.begin(), others.end(), [&](std::uint32_t i) {
        return !is_ahead_of(lives_[i], *next) && may_overtake(lives_[i], e);
      });
      // A wait that is blocked, but might have ended before e came.
      const bool waits = std::any_of(sooner_.begin(), sooner_.end(), [&](const Sooner& s) {
        return s.event.cell == e.event.cell && s.event.self.agent != e.event.self.agent;
      });
      if (!may && !waits) continue;
      if (!asked && !may_stand_in(*wait.wanted, *cell)) break;
      asked = true;
      sets_.note_overtaken(e.event.cell);
    }
  }
}

// The flags that somebody accesses, behind a wait, in a way that may race with their writes.
void Walk::note_raced() {
  if (sets_.all_off()) return;
  const machine::Machine& machine = execution_->machine();
  for (const Live& wait : lives_) {
    if (!wait.executed || !wait.takes_first || sets_.is_raced(wait.event.cell)) continue;
    const machine::Cell* const cell = cell_of(wait.event.cell);
    if (cell == nullptr || !may_stand_in(*wait.wanted, *cell)) continue;
    const auto races = [&](machine::ThreadId thread, const machine::Access& access) {
      for (const Message* m = cell->newest; m != nullptr; m = m->older) {
        if (!m->initial && m->at.thread != thread &&
            !machine.morally_strong(m->at.thread, access_of(*m), thread, access)) {
          return true;
        }
      }
      return false;
    };
    bool any = false;
    for (const machine::Reader* r = cell->readers; r != nullptr && !any; r = r->next) {
      any = r->step >= wait.steps &&
            races(r->at.thread,
                  {.order = r->order, .scope = r->scope, .element = r->element, .proxy = r->proxy});
    }
    for (const Message* m = cell->newest; m != nullptr && !any; m = m->older) {
      any = !m->initial && m->step >= wait.steps && races(m->at.thread, access_of(*m));
    }
    if (any) sets_.note_raced(wait.event.cell);
  }
}

// Whether another write stands for `m` as what ends this wait.
bool Walk::has_stand_in(const Live& wait, const machine::Cell& cell, const Message& m) const {
  if (!wait.takes_first || m.initial || !is_plain(m) || !wait.wanted) return false;
  const machine::Machine& machine = execution_->machine();
  const auto strong = [&](const Message& x) {
    return x.initial || machine.morally_strong(wait.thread, wait.access, x.at.thread, access_of(x));
  };
  const std::uint64_t value = value_of(m, wait.event.cell.size);
  if (!strong(m) || !wait.wanted->holds(value)) return false;
  MessageSet overwritten = 0;
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    const bool past =
        wait.event.pointed && (name_of(*x) == kUnknown || wait.ahead.has(name_of(*x)));
    const bool known = x->step < wait.steps && (wait.known & bit(*x)) != 0;
    if (known || (past && !x->initial)) overwritten |= x->before;
  }
  const Message* next = &m;
  for (const Message* x = m.older; x != nullptr; next = x, x = x->older) {
    if ((m.before & bit(*x)) == 0 || (overwritten & bit(*x)) != 0 || !is_plain(*x)) continue;
    if (!x->initial && (x->at.thread != m.at.thread || x->scope != m.scope ||
                        x->element != m.element || name_of(*x) == kUnknown)) {
      continue;
    }
    const std::uint64_t its = value_of(*x, wait.event.cell.size);
    if (!wait.wanted->holds(its) || !wait.wanted->alike(its, value) || !strong(*x) ||
        !is_published(*x, m)) {
      continue;
    }
    if (!wait.event.pointed || has_points_of(wait, *next)) return true;
  }
  return false;
}

// What an incoming write is in the machine, unless it is still to come.
bool Walk::has_stand_in(const Live& wait, const Incoming& w) const {
  const machine::Cell* const cell = wait.takes_first ? cell_of(w.cell) : nullptr;
  if (cell == nullptr) return false;
  for (const Message* m = cell->newest; m != nullptr; m = m->older) {
    if (name_of(*m) == w.self) return has_stand_in(wait, *cell, *m);
  }
  return false;
}

}  // namespace ringfence::check

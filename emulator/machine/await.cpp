// Awaits: a wait is not polled; its poll is executed once it can end.

#include <array>

#include "emulator/machine/arbiter.hpp"
#include "emulator/machine/bytes.hpp"
#include "emulator/machine/cells.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

// The messages that would end the wait, newest first.
std::uint32_t MachineState::ending(const Now& now, const Cell& cell, const Past& past,
                                   const Wanted& wanted, bool by_rmw,
                                   std::array<Message*, kMaxMessages>& out) const {
  std::uint32_t n = 0;
  const auto ends = [&](const Message& m) { return wanted.holds(load(m.value.data(), cell.size)); };
  if (goes_to_coherence_point(*now.access)) {
    if (ends(*cell.newest)) out[n++] = cell.newest;
    return n;
  }
  const MessageSet may = cell.ids & ~past.overwritten;
  const MessageSet required = past.required();
  for (Message* m = cell.newest; m != nullptr; m = m->older) {
    if ((may & bit(*m)) == 0 || !ends(*m)) continue;
    const bool writes = by_rmw && (wanted.condition == nullptr ||
                                   wanted.condition->writes(load(m->value.data(), cell.size)));
    if (!writes || rmw_may_take(now, cell, *m, required)) out[n++] = m;
  }
  return n;
}

bool Machine::can_end(ThreadId id, Address at, const Access& access, const Wanted& wanted,
                      bool by_rmw) {
  const Now now = now_at(id, access, at, step_, AccessKind::read);
  prepare(now);
  Cell& cell = place_of(now, by_rmw);
  // What the first part alone holds says nothing of the wait.
  if (!by_rmw && cell.size < access.element && !access.of_barrier) tell_races_of_pieces(now);
  if (std::uint64_t later = 0; foresees(now, cell, later)) return wanted.holds(later);
  std::array<Message*, kMaxMessages> out;
  const Past before_it = past(cell, now);
  if (ending(now, cell, before_it, wanted, by_rmw, out) > 0) return true;
  if (goes_to_coherence_point(access)) tell_race_of_look(now, cell, before_it.known);
  if (arbiter_ != nullptr) tell_blocked(now, cell, wanted, by_rmw);
  return false;
}

// At the point of coherence a look in vain sees what is newest, and no search has it end before a
// write came that blocks it. A weak write that nothing orders with the look races with it, also
// where nobody comes to the end of the wait.
void MachineState::tell_race_of_look(const Now& now, const Cell& cell, MessageSet known) {
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if (m->initial || is_strong(m->order)) continue;
    if (races(now, *m, known) && report_race(now, *m)) return;
  }
}

// Which of them the poll sees. Where the newest message does not end the wait, a poll may as well
// see that one and go on waiting: the default.
Message* MachineState::choose_ending(const Now& now, const Cell& cell, const Past& past,
                                     const Wanted& wanted, bool by_rmw,
                                     const std::uint64_t* compare, std::uint64_t operand) {
  std::array<Message*, kMaxMessages> out;
  const std::uint32_t n = ending(now, cell, past, wanted, by_rmw, out);
  if (arbiter_ != nullptr) {
    tell_read(now, cell, past, {out.data(), n}, &wanted, compare, operand, true);
  }
  if (n == 0) return nullptr;
  if (wanted.holds(load(cell.newest->value.data(), cell.size))) {
    return out[n > 1 ? chooser_->choose(Choice::read, now.id, n) : 0];
  }
  const std::uint32_t k = chooser_->choose(Choice::miss, now.id, n + 1);
  return k == 0 ? nullptr : out[k - 1];
}

std::optional<std::uint64_t> Machine::try_read_until(ThreadId id, Address at, const Access& access,
                                                     const Wanted& wanted) {
  Now now = now_at(id, access, at, step_, AccessKind::read);
  prepare(now);
  Cell& cell = place_of(now, false);
  if (std::uint64_t later = 0; foresees(now, cell, later)) {
    if (!wanted.holds(later)) return std::nullopt;
    now.step = ++step_;
    read_foreseen(now, cell, later);
    return later;
  }
  const Past before_it = past(cell, now);
  Message* m = choose_ending(now, cell, before_it, wanted, false);
  if (m == nullptr) return std::nullopt;
  return end_by_read(now, cell, *m, before_it.known);
}

void Machine::see_change(ThreadId id, Address at, const Access& access, const Wanted& wanted) {
  const Now now = now_at(id, access, at, step_, AccessKind::read);
  prepare(now);
  Cell& cell = place_of(now, false);
  std::array<Message*, kMaxMessages> out;
  const std::uint32_t n = ending(now, cell, past(cell, now), wanted, false, out);
  if (n == 0) return;
  note_groups(cell, *out[n > 1 ? chooser_->choose(Choice::read, id, n) : 0], *access.as_one);
  access.as_one->changed_at = at;
  access.as_one->changed = wanted;
}

std::uint64_t MachineState::end_by_read(Now& now, Cell& cell, Message& m, MessageSet known_set) {
  now.step = ++step_;
  now.mask = all_of(cell);
  if (!now.access->of_barrier) check_race(now, cell, known_set);
  m.consumed = true;
  const std::uint64_t value = load(m.value.data(), cell.size);
  if (listener_ != nullptr) {
    tell(Event::Kind::read, now, cell.size, value, 0, &m, &m != cell.newest);
  }
  if (now.access->of_barrier) return value;
  note_read(now, cell, m, known_set);
  trail_read(now, m);
  const bool observed_it = observe(now, m);
  take_in(now, m, observed_it);
  return value;
}

void Machine::took(Address at, std::uint8_t element, std::uint64_t value) {
  Message& newest = *one_cell(at, element).newest;
  if (load(newest.value.data(), element) == value) newest.consumed = true;
}

std::optional<std::uint64_t> Machine::try_cas_until(ThreadId id, Address at, const Access& access,
                                                    std::uint64_t compare, std::uint64_t value) {
  Now now = now_at(id, access, at, step_, AccessKind::rmw);
  prepare(now);
  Cell& cell = place_of(now, true);
  if (std::uint64_t later = 0; foresees(now, cell, later)) {
    if (later != compare) return std::nullopt;
    now.step = ++step_;
    write_foreseen(now, cell, later, value, true);
    finish_strong_write(now);
    return compare;
  }
  const Past before_it = past(cell, now);
  Message* source = choose_ending(now, cell, before_it, Wanted{Compare::eq, compare}, true);
  if (source == nullptr) return std::nullopt;
  end_by_rmw(now, cell, *source, before_it, value);
  return compare;
}

// A look in vain that writes back what it read is a write, which nothing makes here. One behind a
// message that nobody took is in some execution with all that was done so far, and nobody has seen
// its write; a read that came before the wait is over, and not before the waiter, races with it. Of
// a message that somebody took, the taker sees the look: a read before that in its own thread is
// not behind the look by that either.
void MachineState::tell_races_of_looks(const Now& now, const Cell& cell, const Past& past,
                                       const Wanted& wanted) {
  if (cell.readers == nullptr || wanted.condition == nullptr) return;
  const auto is_in_vain = [&](const Message& m, const Reader& r) {
    const std::uint64_t value = load(m.value.data(), cell.size);
    if ((past.overwritten & bit(m)) != 0 || wanted.holds(value) ||
        !wanted.condition->writes(value)) {
      return false;
    }
    for (const Message* x = cell.newest; x != nullptr; x = x->older) {
      if (x->source == &m && !(x->at.thread == r.at.thread && r.at.time < x->at.time)) return false;
    }
    return true;
  };
  for (const Reader* r = cell.readers; r != nullptr; r = r->next) {
    if (!races(now, *r)) continue;
    bool any = false;
    for (const Message* m = cell.newest; m != nullptr && !any; m = m->older) {
      any = is_in_vain(*m, *r);
    }
    if (any && report_race(now, *r)) return;
  }
}

std::optional<std::uint64_t> Machine::try_rmw_until(ThreadId id, Address at, const Access& access,
                                                    const Wanted& wanted,
                                                    const std::uint64_t* compare,
                                                    std::uint64_t operand,
                                                    CombineFunction combine) {
  Now now = now_at(id, access, at, step_, AccessKind::rmw);
  prepare(now);
  Cell& cell = place_of(now, true);
  if (std::uint64_t later = 0; foresees(now, cell, later)) {
    if (!wanted.holds(later)) return std::nullopt;
    return compare != nullptr ? cas(id, at, access, *compare, operand)
                              : rmw(id, at, access, operand, combine);
  }
  const Past before_it = past(cell, now);
  tell_races_of_looks(now, cell, before_it, wanted);
  Message* source = choose_ending(now, cell, before_it, wanted, true, compare, operand);
  if (source == nullptr) return std::nullopt;
  const std::uint64_t old = load(source->value.data(), cell.size);
  if (compare == nullptr) {
    end_by_rmw(now, cell, *source, before_it, combine(old, operand));
  } else if (old == *compare) {
    end_by_rmw(now, cell, *source, before_it, operand);
  } else {
    now.step = ++step_;
    finish_failed_cas(now, cell, *source, before_it.known);
  }
  return old;
}

std::optional<std::uint64_t> Machine::try_end(ThreadId id, Address at, const Access& access,
                                              const Wanted& wanted, bool by_rmw,
                                              std::uint64_t value) {
  if (arbiter_ != nullptr) {  // it is told of both
    if (!can_end(id, at, access, wanted, by_rmw)) return std::nullopt;
    return by_rmw ? try_cas_until(id, at, access, wanted.value, value)
                  : try_read_until(id, at, access, wanted);
  }
  Now now = now_at(id, access, at, step_, by_rmw ? AccessKind::rmw : AccessKind::read);
  prepare(now);
  Cell& cell = place_of(now, by_rmw);
  Past before_it;
  Message* m = cell.newest;
  if (cell.count == 1 && m->initial) {  // nothing to choose from
    before_it.known = bit(*m);
    if (!wanted.holds(load(m->value.data(), cell.size))) return std::nullopt;
  } else {
    before_it = past(cell, now);
    m = choose_ending(now, cell, before_it, wanted, by_rmw);
    if (m == nullptr) return std::nullopt;
  }
  if (!by_rmw) return end_by_read(now, cell, *m, before_it.known);
  end_by_rmw(now, cell, *m, before_it, value);
  return wanted.value;
}

void Machine::watch(Address at, const Access& access, std::uint32_t who) {
  Cell& cell = one_cell(at, access.element);
  cell.watchers = watchers_.take(cell.watchers, who);
}

void Machine::unwatch(Address at, const Access& access, std::uint32_t who) {
  Cell& cell = one_cell(at, access.element);
  for (Watcher** link = &cell.watchers; *link != nullptr; link = &(*link)->next) {
    if ((*link)->who != who) continue;
    Watcher* w = *link;
    *link = w->next;
    watchers_.give(w);
    return;
  }
}

}  // namespace ringfence::machine

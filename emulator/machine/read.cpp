// Reads.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "emulator/machine/arbiter.hpp"
#include "emulator/machine/bytes.hpp"
#include "emulator/machine/cells.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

void MachineState::note_read(const Now& now, Cell& cell, Message& m, MessageSet known_set) {
  const Thread& t = *now.thread;
  const Access& a = *now.access;
  const Epoch at{now.id, t.slot, t.time};
  m.outlives |= known_set & ~bit(m);
  if (((known_set & bit(m)) == 0 || by_proxy()) && morally_strong(now, m)) {
    Observer* o = observers_.take(m.observers, at, a.order, a.scope, a.proxy);
    m.observers = o;
  }
  // Readers that this one stands for: earlier in causality, and whatever later write is ordered
  // after this one, or morally strong with it, is so with them. A weak read leaves a write only
  // order; a strong one also scopes, which reach another block or not as they like.
  const std::uint8_t bytes = operation_bytes(a);
  for (Reader** link = &cell.readers; *link != nullptr;) {
    Reader* r = *link;
    const bool stronger =
        !is_strong(a.order) || (is_strong(r->order) && r->scope >= a.scope &&
                                distance(placement(r->at.thread), placement(now.id)) == Scope::cta);
    if (stronger && (r->mask & ~now.mask) == 0 && r->element == bytes && r->proxy == a.proxy &&
        stands_for(now, *r)) {
      *link = r->next;
      readers_.give(r);
    } else {
      link = &r->next;
    }
  }
  cell.readers =
      readers_.take(cell.readers, at, now.step, a.site, now.mask, a.order, a.scope, a.proxy, bytes);
}

// Whether what is ordered after this access is so after that reader, too.
bool MachineState::stands_for(const Now& now, const Reader& r) const {
  if (!in_past(*now.thread, now.id, r.at)) return false;
  if (!by_proxy()) return true;
  const Proxy mine = now.access->proxy;
  return r.proxy == mine &&
         (kind_of(mine) == ProxyKind::generic ||
          distance(threads_[r.at.thread]->place, now.thread->place) == Scope::cta);
}

// A message that coherence puts after `m` and that precedes the read in observed time.
const Message* MachineState::newer_than(const Now& now, const Cell& cell, const Message& m) const {
  const Access& a = *now.access;
  if (!a.reaches_output || !is_strong(a.order)) return nullptr;
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    if (x == &m || (x->before & bit(m)) == 0) continue;
    if (x->at.thread == now.id || now.thread->view.observed.covers(x->at)) return x;
    // Of an instruction at several replicas this one alone was observed.
    for (const Observer* o = x->observers; x->shared && o != nullptr; o = o->next) {
      if (o->at.thread == now.id || now.thread->view.observed.covers(o->at)) return x;
    }
  }
  return nullptr;
}

void MachineState::check_stale(const Now& now, const Cell& cell, const Message& m) {
  const Message* x = newer_than(now, cell, m);
  if (x == nullptr) return;
  Finding f;
  f.kind = FindingKind::stale_read;
  f.first = info(x->at, AccessKind::write, x->order, x->scope, x->proxy, x->site, x->step, now,
                 cell.size);
  f.second = info(now);
  f.has_first = f.has_second = true;
  report(f);
}

void MachineState::report_uninitialised(const Now& now) {
  Finding f;
  f.kind = FindingKind::uninitialised_read;
  f.second = info(now);
  f.has_second = true;
  report(f);
}

// What a read may return.
MessageSet MachineState::readable(const Now& now, const Cell& cell, const Past& past) const {
  if (cell.count > 1 && goes_to_coherence_point(*now.access)) return bit(*cell.newest);
  return cell.ids & ~past.overwritten;
}

// Policies VectorAccess and LineAccess: of `may`, what goes with what was read of other cells. A
// group that was seen there is seen here, and one that was not is not: the list extends coherence.
MessageSet MachineState::whole_groups(const Cell& cell, MessageSet may, const AsOne& with) const {
  const auto holds = [](const std::vector<std::uint32_t>& groups, std::uint32_t group) {
    return group != 0 && std::find(groups.begin(), groups.end(), group) != groups.end();
  };
  MessageSet newer = 0, from_seen = 0, out = may;
  bool seen = false;
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    newer |= bit(*m);
    if (holds(with.unseen, m->group)) out &= ~newer;
    if (!seen) from_seen |= bit(*m);
    seen = seen || holds(with.seen, m->group);
  }
  return seen ? out & from_seen : out;
}

void MachineState::note_groups(const Cell& cell, const Message& m, AsOne& with) const {
  bool newer = true;
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    newer = newer && x != &m;
    if (x->group == 0) continue;
    auto& groups = newer ? with.unseen : with.seen;
    if (std::find(groups.begin(), groups.end(), x->group) == groups.end()) {
      groups.push_back(x->group);
    }
  }
}

// An exhaustive search is asked of each cell by itself, as what does not fit now may lead to what
// does. What fits stands first, so that its choices mean the same in a run that has no other.
Message* MachineState::choose_in_group(const Now& now, const Cell& cell, const Past& past,
                                       MessageSet may, AsOne& with) {
  if (with.changed && with.changed_at.region == now.address.region &&
      with.changed_at.offset == now.address.offset) {
    MessageSet ends = 0;
    for (const Message* x = cell.newest; x != nullptr; x = x->older) {
      if (with.changed->holds(load(x->value.data(), cell.size))) ends |= bit(*x);
    }
    if ((may & ends) != 0) may &= ends;
  }
  const MessageSet whole = whole_groups(cell, may, with);
  std::array<Message*, kMaxMessages> options;
  std::uint32_t n = 0;
  const auto add = [&](MessageSet of) {
    for (Message* x = cell.newest; x != nullptr; x = x->older) {
      if ((of & bit(*x)) != 0) options[n++] = x;
    }
  };
  add(whole);
  const std::uint32_t fitting = n;
  add(may & ~whole);
  if (arbiter_ != nullptr && ask(*now.access)) {
    tell_read(now, cell, past, {options.data(), n}, nullptr, nullptr, 0, true);
  }
  std::uint32_t k = n > 1 ? chooser_->choose(Choice::read, now.id, n) : 0;
  if (arbiter_ == nullptr && fitting > 0) k %= fitting;
  torn_ = torn_ || k >= fitting;
  note_groups(cell, *options[k], with);
  return options[k];
}

void MachineState::tell_options(const Now& now, const Cell& cell, const Past& past,
                                MessageSet may) {
  std::array<Message*, kMaxMessages> all;
  std::size_t n = 0;
  for (Message* x = cell.newest; x != nullptr; x = x->older) {
    if ((may & bit(*x)) != 0) all[n++] = x;
  }
  tell_read(now, cell, past, {all.data(), n}, nullptr, nullptr, 0, true);
}

void MachineState::read_cell(const Now& now, Cell& cell, const Past& past, MessageSet may,
                             std::byte* out) {
  const bool of_barrier = now.access->of_barrier;
  if (kind_of(now.access->proxy) == ProxyKind::readonly) check_coherent(now, cell);
  if (!of_barrier) check_race(now, cell, past.known);
  if (arbiter_ != nullptr && !ask(*now.access)) arbiter_->on_uncounted(now.address, cell.size);
  Message* m = cell.newest;
  while ((may & bit(*m)) == 0) m = m->older;
  if (now.access->as_one != nullptr) {
    m = choose_in_group(now, cell, past, may, *now.access->as_one);
  } else {
    if (arbiter_ != nullptr && ask(*now.access)) tell_options(now, cell, past, may);
    if (several(may)) {
      std::uint32_t k =
          chooser_->choose(Choice::read, now.id, static_cast<std::uint32_t>(std::popcount(may)));
      for (; k > 0; --k) {
        do m = m->older;
        while ((may & bit(*m)) == 0);
      }
    }
  }
  if (m->uninitialised) report_uninitialised(now);
  check_stale(now, cell, *m);
  // Of the cell's bytes, those from `first` on.
  const int first = std::countr_zero(now.mask);
  const auto bytes = static_cast<std::uint32_t>(std::bit_width(now.mask) - first);
  copy_bytes(out, m->value.data() + first, bytes);
  if (listener_ != nullptr) {
    tell(Event::Kind::read, now, bytes,
         load(out, std::min<std::uint32_t>(now.access->element, cell.size)), 0, m,
         m != cell.newest);
  }
  if (of_barrier) return;
  note_read(now, cell, *m, past.known);
  if (!is_strong(now.access->order)) return;
  trail_read(now, *m);
  const bool observed_it = observe(now, *m);
  take_in(now, *m, observed_it);
}

void Machine::read(ThreadId id, Address from, const Access& access, std::span<std::byte> out) {
  Now now = begin(id, from, access, AccessKind::read);
  if (!check_range(now, out.size())) return;
  if (out.size() == access.element && arbiter_ == nullptr) {
    if (Cell* const cell = exact_cell(from, access.element)) {  // the usual scalar
      now.mask = all_of(*cell);
      const Past before_it = past(*cell, now);
      return read_cell(now, *cell, before_it, readable(now, *cell, before_it), out.data());
    }
  }
  if (is_strong(access.order)) unite_elements(now, out.size());
  const auto part = [&](std::uint64_t begin, std::uint64_t bytes) {
    for_cells(from.region, from.offset + begin, bytes, access.element, !is_strong(access.order),
              [&](Cell& cell, std::uint64_t at, std::uint16_t mask) {
                now.address.offset = from.offset + begin + at;
                now.mask = mask;
                if (ask_by_element(access, cell)) return false;
                if (std::uint64_t later = 0; foresees(now, cell, later)) {
                  std::memcpy(out.data() + begin + at, &later, cell.size);
                  read_foreseen(now, cell, later);
                  return true;
                }
                const Past before_it = past(cell, now);
                const MessageSet may = readable(now, cell, before_it);
                // The elements of a vector are separate: where they could differ, they may.
                if (several(may) && cell.size > access.element) return false;
                read_cell(now, cell, before_it, may, out.data() + begin + at);
                return true;
              });
  };
  if (out.size() < kBlockBytes || !may_act_together(*regions_[from.region], access)) {
    return part(0, out.size());
  }
  by_blocks(from.offset, out.size(), part, [&](std::uint64_t at) {
    return read_whole_block(now, from.offset + at, out.data() + at);
  });
}

}  // namespace ringfence::machine

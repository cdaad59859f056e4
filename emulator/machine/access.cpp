// Reads, writes, read-modify-writes and awaits: where the axioms act.

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "emulator/machine/arbiter.hpp"
#include "emulator/machine/cells.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

namespace {

std::uint64_t load(const std::byte* p, std::uint32_t bytes) {
  std::uint64_t v = 0;
  std::memcpy(&v, p, std::min<std::uint32_t>(bytes, 8));
  return v;
}

void store(std::byte* p, std::uint64_t v, std::uint32_t bytes) { std::memcpy(p, &v, bytes); }

bool several(MessageSet set) { return (set & (set - 1)) != 0; }

// A read-modify-write that only reads: the acquire part of its order.
Access reading(const Access& a) {
  Access as_read = a;
  if (a.order == Order::release) as_read.order = Order::relaxed;
  if (a.order == Order::acq_rel) as_read.order = Order::acquire;
  return as_read;
}

// Covers a span by `block(at)` where that takes a whole block, and by `part(at, bytes)` elsewhere.
template <class Part, class Whole>
void by_blocks(std::uint64_t offset, std::uint64_t bytes, const Part& part, const Whole& block) {
  for (std::uint64_t at = 0; at < bytes;) {
    const std::uint64_t into = (offset + at) % kBlockBytes;
    const std::uint64_t n = std::min(bytes - at, kBlockBytes - into);
    if (n < kBlockBytes || !block(at)) part(at, n);
    at += n;
  }
}

// The write of a read-modify-write follows what its read acquires: earlier readers of the cell are
// looked at once it has (finish_rmw), and kept from the check before.
class UntilAcquired {
 public:
  UntilAcquired(Cell& cell, Order order) : cell_(cell), readers_(cell.readers) {
    if (acquires(order)) cell.readers = nullptr;
  }
  void put_back() const { cell_.readers = readers_; }

 private:
  Cell& cell_;
  Reader* readers_;
};

}  // namespace

// -- what a thread knows and may see --------------------------------------------------------------

// The cell's messages that precede the access in causality order: base causality (the `seen`
// clock), or an observation by an access that does, also through read-modify-writes. SC per
// location is part of it, since a thread's own accesses precede its later ones. Axiom Causality:
// what is overwritten in causality's past can no longer be read.
Machine::Past Machine::past(const Cell& cell, const Now& now) const {
  Past p;
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
bool Machine::in_past(const Now& now, const Epoch& at, Order order, Scope scope,
                      Proxy proxy) const {
  if (policy_.alias_data == AliasData::cohere) return in_past(*now.thread, now.id, at);
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

// -- synchronisation ------------------------------------------------------------------------------

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
  for (int d = kScopes; d-- > 0;) {
    const FenceView& f = t.fences[d];
    if (f.set) add(f.at, static_cast<Scope>(d), f.view);
  }
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    if (x->at.thread != now.id || x->initial) continue;
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
void Machine::observe(const Now& now, const Message& m) {
  const Access& a = *now.access;
  if (!is_strong(a.order) || a.scope != Scope::sys) return;
  if (m.initial || !is_strong(m.order) || m.scope != Scope::sys) return;
  Clock& observed = now.thread->view.observed;
  if (m.at.thread == now.id || observed.covers(m.at)) return;
  observed.join(m.observed);
  observed.join_thread(m.at.thread, m.at.slot, m.at.time + 1);
}

// Causality by an acquire pattern. A message of the reader's own may bring some as well: its
// reductions hand on what others released.
void Machine::take_in(const Now& now, const Message& m) {
  const Access& a = *now.access;
  if (!is_strong(a.order) || m.initial) return;
  Thread& t = *now.thread;
  if (!morally_strong(now, m)) return;
  for (const Entry* e = m.entries; e != nullptr; e = e->next) {
    if (in_past(t, now.id, e->at)) continue;
    const Placement& other = threads_[e->at.thread]->place;
    if (acquires(a.order) && reaches(a.scope, t.place, other) &&
        reaches(e->scope, other, t.place)) {
      take_entry(t, e->at, e->view);
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

// -- one cell -------------------------------------------------------------------------------------

void Machine::note_read(const Now& now, Cell& cell, Message& m, MessageSet known_set) {
  const Thread& t = *now.thread;
  const Access& a = *now.access;
  const Epoch at{now.id, t.slot, t.time};
  m.outlives |= known_set & ~bit(m);
  if ((known_set & bit(m)) == 0 && morally_strong(now, m)) {
    Observer* o = observers_.take(m.observers, at);
    m.observers = o;
  }
  // Readers that this one stands for: earlier in causality, and at least as strong.
  Reader* mine = nullptr;
  for (Reader** link = &cell.readers; *link != nullptr;) {
    Reader* r = *link;
    const bool stronger = !is_strong(a.order) || (is_strong(r->order) && r->scope == Scope::sys) ||
                          (r->at.thread == now.id && is_strong(r->order) && r->scope >= a.scope);
    if (stronger && (r->mask & ~now.mask) == 0 && r->element == a.element && r->proxy == a.proxy &&
        in_past(t, now.id, r->at)) {
      *link = r->next;
      if (mine == nullptr) {
        mine = r;
      } else {
        readers_.give(r);
      }
      continue;
    }
    link = &r->next;
  }
  if (mine == nullptr) mine = readers_.take();
  *mine =
      Reader{cell.readers, at, now.step, a.site, now.mask, a.order, a.scope, a.proxy, a.element};
  cell.readers = mine;
}

// A message that coherence puts after `m` and that precedes the read in observed time.
const Message* Machine::newer_than(const Now& now, const Cell& cell, const Message& m) const {
  const Access& a = *now.access;
  if (!a.reaches_output || !is_strong(a.order)) return nullptr;
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    if (x == &m || (x->before & bit(m)) == 0) continue;
    if (x->at.thread == now.id || now.thread->view.observed.covers(x->at)) return x;
  }
  return nullptr;
}

void Machine::check_stale(const Now& now, const Cell& cell, const Message& m) {
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

// What a read may return.
MessageSet Machine::readable(const Now& now, const Cell& cell, const Past& past) const {
  if (cell.count > 1 && goes_to_coherence_point(*now.access)) return bit(*cell.newest);
  return cell.ids & ~past.overwritten;
}

void Machine::read_cell(const Now& now, Cell& cell, const Past& past, MessageSet may,
                        std::byte* out) {
  check_race(now, cell, past.known);
  Message* m = cell.newest;
  while ((may & bit(*m)) == 0) m = m->older;
  if (arbiter_ != nullptr && ask(*now.access)) {
    std::array<Message*, kMaxMessages> all;
    std::size_t n = 0;
    for (Message* x = cell.newest; x != nullptr; x = x->older) {
      if ((may & bit(*x)) != 0) all[n++] = x;
    }
    tell_read(now, cell, past, {all.data(), n}, nullptr, nullptr, 0, true);
  }
  if (several(may)) {
    std::uint32_t k =
        chooser_->choose(Choice::read, now.id, static_cast<std::uint32_t>(std::popcount(may)));
    for (; k > 0; --k) {
      do m = m->older;
      while ((may & bit(*m)) == 0);
    }
  }
  if (m->uninitialised) {
    Finding f;
    f.kind = FindingKind::uninitialised_read;
    f.second = info(now);
    f.has_second = true;
    report(f);
  }
  check_stale(now, cell, *m);
  const int first = std::countr_zero(now.mask);
  std::memcpy(out, m->value.data() + first, static_cast<std::size_t>(std::popcount(now.mask)));
  if (listener_ != nullptr) {
    tell(Event::Kind::read, now, static_cast<std::uint32_t>(std::popcount(now.mask)),
         load(out, std::min<std::uint32_t>(now.access->element, cell.size)), 0, m,
         m != cell.newest);
  }
  note_read(now, cell, *m, past.known);
  observe(now, *m);
  take_in(now, *m);
}

// Axiom Coherence: where a write of this access may land, with `required` before it and `behind`
// after it: the sets of messages behind it, the least first. `strong` are those that it is ordered
// with in any case, besides these.
std::uint32_t Machine::placements(const Now& now, const Cell& cell, MessageSet required,
                                  MessageSet behind, MessageSet& strong,
                                  Placements& options) const {
  std::array<const Message*, kMaxMessages> optional{};
  std::size_t n = 0;
  strong = 0;
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if (((required | behind) & bit(*m)) == 0 && morally_strong(now, *m)) {
      optional[n++] = m;
      strong |= bit(*m);
    }
  }
  // Every subset of the optional ones may come after the write if it is closed upwards and does
  // not pull the write between a read-modify-write and what that read (axiom Atomicity).
  const auto allowed = [&](MessageSet set) {
    set |= behind;
    const MessageSet before = required | downward(cell, strong & ~set);
    if ((before & set) != 0 || outdates_a_read(cell, before, set)) return false;
    // With what coherence puts behind those, by way of this write.
    MessageSet behind_all = set;
    for (const Message* m = cell.newest; m != nullptr; m = m->older) {
      if ((m->before & set) != 0) behind_all |= bit(*m);
    }
    for (const Message* m = cell.newest; m != nullptr; m = m->older) {
      if ((behind_all & bit(*m)) == 0 || m->source == nullptr || (before & bit(*m->source)) == 0) {
        continue;
      }
      if ((set & bit(*m)) != 0) return false;
      const Access mine{
          .order = m->order, .scope = m->scope, .element = m->element, .proxy = m->proxy};
      for (const Message* y = cell.newest; y != nullptr; y = y->older) {
        if (y == m || y->initial || (behind_all & m->before & bit(*y)) == 0) continue;
        const Access its{
            .order = y->order, .scope = y->scope, .element = y->element, .proxy = y->proxy};
        if (morally_strong(m->at.thread, mine, y->at.thread, its)) return false;
      }
    }
    return true;
  };
  std::uint32_t count = 0;
  if (allowed(0)) options[count++] = behind;
  if (n <= kAllSubsets) {
    for (std::uint32_t pattern = 1; pattern < (1u << n) && count < options.size(); ++pattern) {
      MessageSet set = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if ((pattern >> i & 1) != 0) set |= bit(*optional[i]);
      }
      if (allowed(set)) options[count++] = set | behind;
    }
  } else {
    MessageSet set = 0;
    for (std::size_t i = 0; i < n && count < options.size(); ++i) {
      set |= bit(*optional[i]);
      if (allowed(set)) options[count++] = set | behind;
    }
  }
  return count;
}

// Which messages coherence puts before a write; those behind it are returned in `after`.
MessageSet Machine::place(const Now& now, Cell& cell, MessageSet required, MessageSet behind,
                          MessageSet& after) {
  after = behind;
  const bool asked = arbiter_ != nullptr && ask(*now.access);
  const bool pointed = goes_to_coherence_point(*now.access);
  if (pointed && !asked) return cell.ids;
  if (!is_strong(now.access->order) || required == cell.ids) return required;
  Placements options;
  MessageSet strong = 0;
  const std::uint32_t count = placements(now, cell, required, behind, strong, options);
  if (strong == 0) return pointed ? cell.ids : required;
  if (asked) {
    Arbiter::Question q{now.id, now.address, cell.size, now.kind, now.access, &cell, required};
    q.pointed = pointed;
    arbiter_->on_place(q, {options.data(), count});
    if (pointed) return cell.ids;
  }
  if (count > 0) {
    after = options[count > 1 ? chooser_->choose(Choice::coherence, now.id, count) : 0];
  }
  return required | downward(cell, strong & ~after);
}

void Machine::wake(Cell& cell) {
  for (const Watcher* w = cell.watchers; w != nullptr; w = w->next) woken_.push_back(w->who);
}

void Machine::write_cell(const Now& now, Cell& cell, const std::byte* in) {
  const Past before_it = past(cell, now);
  check_race(now, cell, before_it.known);
  check_lost_signal(now, cell, nullptr);
  MessageSet after = 0;
  const MessageSet before = place(now, cell, before_it.required(), 0, after);
  Message& m = add_message(cell, now);
  m.before = before & cell.ids;
  std::memcpy(m.value.data(), in, cell.size);
  if (is_strong(now.access->order)) publish(now, cell, m, nullptr, false);
  insert_message(cell, &m, after);
  tell_message(now, cell, m);
  prune_readers(now, cell);
  if (listener_ != nullptr) {
    tell(Event::Kind::write, now, cell.size,
         load(in, std::min<std::uint32_t>(now.access->element, cell.size)), 0, nullptr, after != 0);
  }
  wake(cell);
}

// After a weak write that is ordered after a read, a later write need only be ordered after that
// write. Not so after a strong one: whoever observes it comes after it, but not after the read.
void Machine::prune_readers(const Now& now, Cell& cell) {
  if (is_strong(now.access->order)) return;
  for (Reader** link = &cell.readers; *link != nullptr;) {
    Reader* r = *link;
    if (in_past(*now.thread, now.id, r->at)) {
      *link = r->next;
      readers_.give(r);
    } else {
      link = &r->next;
    }
  }
}

// Axiom Atomicity: nothing morally strong may lie between `m` and a read-modify-write that reads
// it; so none has taken it before (where coherence orders both behind `m`), and what must precede
// the write precedes `m`.
bool Machine::rmw_may_take(const Now& now, const Cell& cell, const Message& m,
                           MessageSet required) const {
  const bool m_first = (required & bit(m)) != 0;
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    if (x == &m) continue;
    if (x->source == &m && (x->before & bit(m)) != 0 && morally_strong(now, *x) &&
        (m_first || morally_strong(now, m))) {
      return false;
    }
    if ((required & bit(*x)) != 0 && (x->before & bit(m)) != 0 && morally_strong(now, *x)) {
      return false;
    }
  }
  if (&m == cell.newest) return true;
  MessageSet after = 0;
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    if ((x->before & bit(m)) != 0 && morally_strong(now, *x)) after |= bit(*x);
  }
  if (after == 0) return true;
  if (morally_strong(now, m)) required |= bit(m) | m.before;
  Placements options;
  MessageSet strong = 0;
  return placements(now, cell, required, after, strong, options) > 0;
}

Message* Machine::insert_rmw(const Now& now, Cell& cell, Message& source, const Past& past,
                             const std::byte* value) {
  const bool strong_link = morally_strong(now, source);
  const bool pointed = goes_to_coherence_point(*now.access);
  // Coherence orders the write after what it read only if the two are morally strong.
  MessageSet required = past.required();
  if (strong_link) required |= bit(source) | source.before;
  // Whatever is morally strong and behind the source must come behind the write as well; of the
  // rest, what the source does not order may come on either side.
  MessageSet after = 0, free = 0;
  if (required != cell.ids && (!pointed || (arbiter_ != nullptr && ask(*now.access)))) {
    for (const Message* m = cell.newest; m != nullptr; m = m->older) {
      if ((required & bit(*m)) != 0 || m == &source || !morally_strong(now, *m)) continue;
      ((m->before & bit(source)) != 0 ? after : free) |= bit(*m);
    }
  }
  MessageSet before = pointed ? cell.ids : required;
  if (free != 0) before = place(now, cell, required, after, after);
  check_lost_signal(now, cell, &source);
  const bool set = arbiter_ != nullptr && arbiter_->as_set(now.address);
  if (!set) observe(now, source);
  Message& m = add_message(cell, now);
  if (pointed) after = 0;
  m.before = before & cell.ids & ~after;
  m.rmw = true;
  m.source = &source;
  m.source_strong = strong_link;
  source.outlives |= past.known & ~bit(source);
  std::memcpy(m.value.data(), value, cell.size);
  publish(now, cell, m, &source, strong_link);
  if (set && !source.initial) {
    m.observed.join(source.observed);
    m.observed.join_thread(source.at.thread, source.at.slot, source.at.time + 1);
  }
  insert_message(cell, &m, after);
  tell_message(now, cell, m);
  source.consumed = true;
  prune_readers(now, cell);
  wake(cell);
  return &m;
}

Message* Machine::choose_rmw_source(const Now& now, Cell& cell, const Past& past,
                                    const std::uint64_t* compare, std::uint64_t operand,
                                    bool result) {
  const bool asked = arbiter_ != nullptr && ask(*now.access);
  const bool pointed = goes_to_coherence_point(*now.access);
  if (pointed && !asked) return cell.newest;
  const MessageSet required = past.required();
  const MessageSet may = cell.ids & ~past.overwritten;
  std::array<Message*, kMaxMessages> options{};
  std::uint32_t n = 0;
  for (Message* m = cell.newest; m != nullptr; m = m->older) {
    if ((may & bit(*m)) == 0) continue;
    const bool writes = compare == nullptr || load(m->value.data(), cell.size) == *compare;
    if (!writes || rmw_may_take(now, cell, *m, required)) options[n++] = m;
  }
  if (asked) tell_read(now, cell, past, {options.data(), n}, nullptr, compare, operand, result);
  if (n == 0 || pointed) return cell.newest;
  return options[n > 1 ? chooser_->choose(Choice::read, now.id, n) : 0];
}

// -- accesses -------------------------------------------------------------------------------------

Machine::Now Machine::begin(ThreadId id, Address at, const Access& access, AccessKind kind) {
  return Now{id, threads_[id], &access, at, ++step_, kind, 0};
}

// A span that leaves its region, or is not aligned to its elements, is a finding and not executed.
bool Machine::check_range(const Now& now, std::uint64_t bytes) {
  const std::uint64_t size = regions_[now.address.region]->spec.bytes;
  const bool inside = now.address.offset <= size && bytes <= size - now.address.offset;
  if (inside && now.address.offset % now.access->element == 0) return true;
  Finding f;
  f.kind = inside ? FindingKind::misaligned : FindingKind::out_of_bounds;
  f.second = info(now);
  f.second.bytes = static_cast<std::uint32_t>(bytes);
  f.has_second = true;
  report(f);
  return false;
}

// Own later accesses are not part of what a strong write publishes.
void Machine::finish_strong_write(const Now& now) {
  if (is_strong(now.access->order)) ++now.thread->time;
}

void Machine::read(ThreadId id, Address from, const Access& access, std::span<std::byte> out) {
  Now now = begin(id, from, access, AccessKind::read);
  if (!check_range(now, out.size())) return;
  const auto part = [&](std::uint64_t begin, std::uint64_t bytes) {
    for_cells(from.region, from.offset + begin, bytes, access.element, !is_strong(access.order),
              [&](Cell& cell, std::uint64_t at, std::uint16_t mask) {
                now.address.offset = from.offset + begin + at;
                now.mask = mask;
                if (ask_by_element(access, cell)) return false;
                if (const auto later = foreseen(now, cell)) {
                  std::memcpy(out.data() + begin + at, &*later, cell.size);
                  read_foreseen(now, cell, *later);
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

void Machine::write(ThreadId id, Address to, const Access& access, std::span<const std::byte> in) {
  Now now = begin(id, to, access, AccessKind::write);
  if (!check_range(now, in.size())) return;
  const auto part = [&](std::uint64_t begin, std::uint64_t bytes) {
    for_cells(to.region, to.offset + begin, bytes, access.element, false,
              [&](Cell& cell, std::uint64_t at, std::uint16_t mask) {
                now.address.offset = to.offset + begin + at;
                now.mask = mask;
                if (ask_by_element(access, cell)) return false;
                write_cell(now, cell, in.data() + begin + at);
                return true;
              });
  };
  if (in.size() < kBlockBytes || !may_act_together(*regions_[to.region], access)) {
    part(0, in.size());
  } else {
    by_blocks(to.offset, in.size(), part, [&](std::uint64_t at) {
      return write_whole_block(now, to.offset + at, in.data() + at);
    });
  }
  finish_strong_write(now);
}

void Machine::reduce(ThreadId id, Address to, const Access& access,
                     std::span<const std::byte> operand, Combine combine) {
  Now now = begin(id, to, access, AccessKind::rmw);
  if (!check_range(now, operand.size())) return;
  for_cells(to.region, to.offset, operand.size(), access.element, false,
            [&](Cell& cell, std::uint64_t at, std::uint16_t mask) {
              now.address.offset = to.offset + at;
              now.mask = mask;
              if (ask_by_element(access, cell)) return false;
              if (const auto later = foreseen(now, cell)) {
                const std::uint64_t v = combine(*later, load(operand.data() + at, access.element));
                write_foreseen(now, cell, *later, v, false);
                now.kind = AccessKind::rmw;
                return true;
              }
              const Past before_it = past(cell, now);
              check_race(now, cell, before_it.known);
              Message* source = choose_rmw_source(now, cell, before_it, nullptr,
                                                  load(operand.data() + at, access.element), false);
              std::array<std::byte, kLineBytes> next = source->value;
              const std::uint32_t step = std::min<std::uint32_t>(access.element, cell.size);
              for (std::uint32_t o = 0; o < cell.size; o += step) {
                const std::uint64_t v = combine(load(source->value.data() + o, step),
                                                load(operand.data() + at + o, step));
                store(next.data() + o, v, step);
              }
              if (listener_ != nullptr) {
                tell(Event::Kind::rmw, now, cell.size, load(next.data(), step),
                     load(source->value.data(), step), source, source != cell.newest, kReduction);
              }
              insert_rmw(now, cell, *source, before_it, next.data());
              return true;
            });
  finish_strong_write(now);
}

std::uint64_t Machine::rmw(ThreadId id, Address at, const Access& access, std::uint64_t operand,
                           Combine combine) {
  Now now = begin(id, at, access, AccessKind::rmw);
  if (!check_range(now, access.element)) return 0;
  Cell& cell = one_cell(at.region, at.offset, access.element);
  if (const auto later = foreseen(now, cell)) {
    write_foreseen(now, cell, *later, combine(*later, operand), true);
    finish_strong_write(now);
    return *later;
  }
  const Past before_it = past(cell, now);
  const UntilAcquired readers(cell, access.order);
  check_race(now, cell, before_it.known);
  readers.put_back();
  Message* source = choose_rmw_source(now, cell, before_it, nullptr, operand, true);
  const std::uint64_t old = load(source->value.data(), cell.size);
  finish_rmw(now, cell, *source, before_it, combine(old, operand));
  return old;
}

std::uint64_t Machine::cas(ThreadId id, Address at, const Access& access, std::uint64_t compare,
                           std::uint64_t value) {
  Now now = begin(id, at, access, AccessKind::rmw);
  if (!check_range(now, access.element)) return 0;
  Cell& cell = one_cell(at.region, at.offset, access.element);
  if (const auto later = foreseen(now, cell)) {
    if (*later == compare) {
      write_foreseen(now, cell, *later, value, true);
      finish_strong_write(now);
    } else {
      const Access as_read = reading(access);
      now.access = &as_read;
      read_foreseen(now, cell, *later);
    }
    return *later;
  }
  const Past before_it = past(cell, now);
  Message* source = choose_rmw_source(now, cell, before_it, &compare, value, true);
  const std::uint64_t old = load(source->value.data(), cell.size);
  if (old == compare) {
    const UntilAcquired readers(cell, access.order);
    check_race(now, cell, before_it.known);
    readers.put_back();
    finish_rmw(now, cell, *source, before_it, value);
  } else {
    finish_failed_cas(now, cell, *source, before_it.known);
  }
  return old;
}

void Machine::finish_rmw(Now& now, Cell& cell, Message& source, const Past& past,
                         std::uint64_t value) {
  std::array<std::byte, kLineBytes> next{};
  store(next.data(), value, cell.size);
  if (listener_ != nullptr) {
    tell(Event::Kind::rmw, now, cell.size, value, load(source.value.data(), cell.size), &source,
         &source != cell.newest);
  }
  Message* m = insert_rmw(now, cell, source, past, next.data());
  if ((past.known & bit(source)) == 0 && m->source_strong) {
    // The read half observed its source.
    source.observers = observers_.take(source.observers, m->at);
  }
  take_in(now, source);
  if (acquires(now.access->order)) check_race(now, cell, cell.ids);  // with readers
  finish_strong_write(now);
}

// A failed compare is a strong read with the acquire part of its order, and writes nothing.
void Machine::finish_failed_cas(Now& now, Cell& cell, Message& source, MessageSet known_set) {
  const Access as_read = reading(*now.access);
  now.access = &as_read;
  now.kind = AccessKind::read;
  now.mask = static_cast<std::uint16_t>((1u << cell.size) - 1);
  check_race(now, cell, known_set);
  if (listener_ != nullptr) {
    tell(Event::Kind::failed_cas, now, cell.size, load(source.value.data(), cell.size), 0, &source,
         &source != cell.newest);
  }
  note_read(now, cell, source, known_set);
  observe(now, source);
  take_in(now, source);
}

// -- awaits ---------------------------------------------------------------------------------------

// The messages that would end the wait, newest first.
std::uint32_t Machine::ending(const Now& now, const Cell& cell, const Wanted& wanted, bool by_rmw,
                              std::array<Message*, kMaxMessages>& out) const {
  std::uint32_t n = 0;
  const auto ends = [&](const Message& m) { return wanted.holds(load(m.value.data(), cell.size)); };
  if (goes_to_coherence_point(*now.access)) {
    if (ends(*cell.newest)) out[n++] = cell.newest;
    return n;
  }
  const Past before_it = past(cell, now);
  const MessageSet may = cell.ids & ~before_it.overwritten;
  const MessageSet required = before_it.required();
  for (Message* m = cell.newest; m != nullptr; m = m->older) {
    if ((may & bit(*m)) == 0 || !ends(*m)) continue;
    if (!by_rmw || rmw_may_take(now, cell, *m, required)) out[n++] = m;
  }
  return n;
}

bool Machine::can_end(ThreadId id, Address at, const Access& access, const Wanted& wanted,
                      bool by_rmw) {
  Cell& cell = one_cell(at.region, at.offset, access.element);
  const Now now{id, threads_[id], &access, at, step_, AccessKind::read, 0};
  if (const auto later = foreseen(now, cell)) return wanted.holds(*later);
  std::array<Message*, kMaxMessages> out;
  if (ending(now, cell, wanted, by_rmw, out) > 0) return true;
  if (arbiter_ != nullptr) tell_blocked(now, cell, wanted, by_rmw);
  return false;
}

// Which of them the poll sees. Where the newest message does not end the wait, a poll may as well
// see that one and go on waiting: the default.
Message* Machine::choose_ending(const Now& now, const Cell& cell, const Wanted& wanted,
                                bool by_rmw) {
  std::array<Message*, kMaxMessages> out;
  const std::uint32_t n = ending(now, cell, wanted, by_rmw, out);
  if (arbiter_ != nullptr) {
    tell_read(now, cell, past(cell, now), {out.data(), n}, &wanted, nullptr, 0, true);
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
  Cell& cell = one_cell(at.region, at.offset, access.element);
  Now now{id, threads_[id], &access, at, step_, AccessKind::read, 0};
  if (const auto later = foreseen(now, cell)) {
    if (!wanted.holds(*later)) return std::nullopt;
    now.step = ++step_;
    read_foreseen(now, cell, *later);
    return later;
  }
  Message* m = choose_ending(now, cell, wanted, false);
  if (m == nullptr) return std::nullopt;
  now.step = ++step_;
  now.mask = static_cast<std::uint16_t>((1u << cell.size) - 1);
  const MessageSet known_set = past(cell, now).known;
  check_race(now, cell, known_set);
  m->consumed = true;
  const std::uint64_t value = load(m->value.data(), cell.size);
  if (listener_ != nullptr) {
    tell(Event::Kind::read, now, cell.size, value, 0, m, m != cell.newest);
  }
  note_read(now, cell, *m, known_set);
  observe(now, *m);
  take_in(now, *m);
  return value;
}

void Machine::took(Address at, std::uint8_t element, std::uint64_t value) {
  Message& newest = *one_cell(at.region, at.offset, element).newest;
  if (load(newest.value.data(), element) == value) newest.consumed = true;
}

std::optional<std::uint64_t> Machine::try_cas_until(ThreadId id, Address at, const Access& access,
                                                    std::uint64_t compare, std::uint64_t value) {
  Cell& cell = one_cell(at.region, at.offset, access.element);
  Now now{id, threads_[id], &access, at, step_, AccessKind::rmw, 0};
  if (const auto later = foreseen(now, cell)) {
    if (*later != compare) return std::nullopt;
    now.step = ++step_;
    write_foreseen(now, cell, *later, value, true);
    finish_strong_write(now);
    return compare;
  }
  Message* source = choose_ending(now, cell, Wanted{Compare::eq, compare}, true);
  if (source == nullptr) return std::nullopt;
  now.step = ++step_;
  const Past before_it = past(cell, now);
  const UntilAcquired readers(cell, access.order);
  check_race(now, cell, before_it.known);
  readers.put_back();
  finish_rmw(now, cell, *source, before_it, value);
  return compare;
}

// -- load buffering -------------------------------------------------------------------------------

std::optional<std::uint64_t> Machine::foreseen(const Now& now, const Cell& cell) const {
  if (arbiter_ == nullptr || !arbiter_->foresees() || cell.size > 8) return std::nullopt;
  return arbiter_->foreseen(label_of(Epoch{now.id, now.thread->slot, now.thread->time}),
                            now.address, cell.size);
}

void Machine::read_foreseen(const Now& now, const Cell& cell, std::uint64_t value) {
  if (listener_ == nullptr) return;
  tell(now.kind == AccessKind::rmw ? Event::Kind::failed_cas : Event::Kind::read, now, cell.size,
       value, 0, nullptr, false, kForeseen);
}

// A read-modify-write of such a read: a plain write, as far as the run is concerned.
void Machine::write_foreseen(Now& now, Cell& cell, std::uint64_t old, std::uint64_t value,
                             bool result) {
  if (listener_ != nullptr) {
    tell(Event::Kind::rmw, now, cell.size, value, old, nullptr, false,
         result ? kForeseen : kForeseen | kReduction);
  }
  now.kind = AccessKind::write;
  std::array<std::byte, kLineBytes> next{};
  store(next.data(), value, cell.size);
  Listener* const listener = std::exchange(listener_, nullptr);
  write_cell(now, cell, next.data());
  listener_ = listener;
}

// -- for an exhaustive search ---------------------------------------------------------------------

bool Machine::morally_strong(ThreadId a, const Access& x, ThreadId b, const Access& y) const {
  const Now now{a, threads_[a], &x, {}, 0, AccessKind::read, 0};
  return morally_strong(now, b, y.order, y.scope, y.proxy, y.element);
}

bool Machine::ask(const Access& a) const { return arbiter_ != nullptr && arbiter_->counts(a); }

MessageSet Machine::takes(const Now& now, const Cell& cell, const Past& past) const {
  MessageSet may = cell.ids & ~past.overwritten;
  if (now.kind != AccessKind::rmw) return may;
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if ((may & bit(*m)) != 0 && !rmw_may_take(now, cell, *m, past.required())) may &= ~bit(*m);
  }
  return may;
}

void Machine::tell_read(const Now& now, const Cell& cell, const Past& past,
                        std::span<Message* const> options, const Wanted* wanted,
                        const std::uint64_t* compare, std::uint64_t operand, bool result) {
  Arbiter::Question q{now.id, now.address, cell.size, now.kind, now.access, &cell, past.known};
  q.may = cell.ids & ~past.overwritten;
  q.takes = takes(now, cell, past);
  q.pointed = goes_to_coherence_point(*now.access);
  q.result = result;
  q.wanted = wanted;
  q.compare = compare;
  q.operand = operand;
  arbiter_->on_read(q, options);
}

void Machine::tell_message(const Now& now, const Cell& cell, const Message& m) {
  if (!ask(*now.access)) return;
  Arbiter::Question q{now.id, now.address, cell.size, now.kind, now.access, &cell, 0};
  q.pointed = goes_to_coherence_point(*now.access);
  arbiter_->on_message(q, m);
}

void Machine::tell_blocked(const Now& now, const Cell& cell, const Wanted& wanted, bool by_rmw) {
  Now asking = now;
  asking.kind = by_rmw ? AccessKind::rmw : AccessKind::read;
  const Past before_it = past(cell, asking);
  Arbiter::Question q{now.id,     now.address, cell.size,      asking.kind,
                      now.access, &cell,       before_it.known};
  q.may = cell.ids & ~before_it.overwritten;
  q.takes = takes(asking, cell, before_it);
  q.pointed = goes_to_coherence_point(*now.access);
  q.wanted = &wanted;
  arbiter_->on_blocked(q);
}

void Machine::watch(Address at, const Access& access, std::uint32_t who) {
  Cell& cell = one_cell(at.region, at.offset, access.element);
  cell.watchers = watchers_.take(cell.watchers, who);
}

void Machine::unwatch(Address at, const Access& access, std::uint32_t who) {
  Cell& cell = one_cell(at.region, at.offset, access.element);
  for (Watcher** link = &cell.watchers; *link != nullptr; link = &(*link)->next) {
    if ((*link)->who != who) continue;
    Watcher* w = *link;
    *link = w->next;
    watchers_.give(w);
    return;
  }
}

}  // namespace ringfence::machine

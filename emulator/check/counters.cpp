// Counters: reductions that all do the same to a cell, and waits that end once enough of them came.
//
// Where a wait could end on a part of the reductions, they are no set (Sets): which of them it has
// read can be told, as it acquires what those released. In which order they came cannot. So the
// reads-from of such a wait is the set of reductions that precede it in coherence order (its sum),
// and coherence among the reductions is explored only as far as these sets show it. All of this
// needs that the reductions and the waits are morally strong with one another, that nothing else
// accesses the cell in between, that behind each value that ends a wait all later ones do, and that
// the waiter goes on alike behind them.
//
// Each execution has such sums: the reductions are one chain, each reading the one before (axiom
// Atomicity), and a wait reads one of them with all before it. They are subsets of one another, and
// each has, with a reduction, those in its past: a chain that reads-from goes along cannot run
// against program order and reads-from. Conversely, sums with these two properties, each with all
// that causality puts before its wait, are those of an execution for any order of the chain that
// extends both: what a wait acquires of its sum is what all in it released, in whatever order the
// chain hands it on (each link is morally strong); what a reduction reads nobody uses, and it
// acquires nothing; and what it observes of others by reading them, causality needs only at this
// cell, where the sums say so. Fence-sc order is not part of a past: with a fence.sc in the run
// orders are explored, as before.
//
// Of two sums of a wait the smaller one stands for the larger one, as in first_end.cpp: what it
// acquires of the one it acquires of the other, and nothing of what is new in coherence (the wait
// comes before the others) precedes the wait in causality order, if the smaller sum has all
// that is in the wait's past. It has to fit the sums of the other waits: those of the same thread
// are part of its past or contain the larger one; of another thread's sum that is known only if
// each reduction that is left out has the smaller sum in its past. At the point of coherence (mode
// coherent) order of execution is what it is: there each sum is explored. What the smaller sum
// lacks comes behind it, by reads-from along the chain. With the sums of another counter that may
// be a cycle of program order and reads-from, which no run has: then nobody can step along the
// graph, and each sum is explored (note_crossed_sums).
//
// Reductions by one instruction at several replicas (multimem.red) have no order, but a run makes
// them one after another, in one order of the replicas: so its past puts f.c, what instruction f
// does at the counter c, before whatever comes behind another part of f made later. Let S be the
// sum of a wait in an execution in which nothing else orders them, and S+ all of S with those f.c
// of which such a part is in the past of the wait or of a reduction of S. The sums S+ are subsets
// of one another where the sums S are (between two waits of which one is in the other's past), are
// closed under the run's past, and end the waits, as later totals do. Where whoever comes behind f
// has acquired what f released, and hands it on by a release to waits that acquire (hands_on), the
// execution with the sums S+ has the causality order of the other one, but for f.c itself, which
// only c knows of: the same races, and the same values elsewhere. So it stands for it, as long as
// nothing but reductions and waits comes to c behind the first reduction: a read of c, a store or a
// weak access, by one whose wait has f.c in S+ and not in S, may see less there or race with it
// (shows_parts). Of parts in the past by no such way, by relaxed waits, and at the point of
// coherence this is not known: then the order is noted as left out.
//
// As for reads-from, a graph is reached once: the fixed rule gives a wait a sum that is a function
// of the reductions and the other sums that are there (usual_sum), and a reduction that comes later
// revisits a wait with each sum that contains it.

#include <algorithm>
#include <bit>

#include "emulator/check/walk.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::check {

using machine::Message;

namespace {

// Sums that are looked at for one wait; where there are more, orders are explored.
constexpr std::uint32_t kMostSums = 1u << 16;

// The keys of a cell among those of Sets: it is tried as a counter; several threads wait at it; a
// reduction there is handed on; each sum is explored (note_crossed_sums).
CellKey as_counter(CellKey cell) {
  cell.size |= 0x40;
  return cell;
}
CellKey several_waiters(CellKey cell) {
  cell.size |= 0x20;
  return cell;
}
CellKey of_parts(CellKey cell) {
  cell.size |= 0x60;
  return cell;
}
CellKey crossed(CellKey cell) {
  cell.size |= 0xA0;
  return cell;
}

}  // namespace

// Whether two of them with different operands commute.
bool commutes(machine::Combine combine) {
  switch (combine) {
    case machine::Combine::exchange:
    case machine::Combine::cas:
    case machine::Combine::inc:
    case machine::Combine::dec:
    case machine::Combine::div:
      return false;
    default:
      return true;
  }
}

bool Sets::is_set(const CellKey& cell) const {
  return on_ && !ordered_.contains(cell) && !ordered_.contains(as_counter(cell));
}

bool Sets::is_counter(const CellKey& cell) const {
  return on_ && ordered_.contains(as_counter(cell)) && !ordered_.contains(cell);
}

void Sets::count(const CellKey& cell) {
  if (on_ && ordered_.insert(as_counter(cell)).second) ++generation_;
}

bool Sets::is_set_or_counter(const CellKey& cell) const { return on_ && !ordered_.contains(cell); }

bool Sets::has_one_waiter(const CellKey& cell) const { return !has(several_waiters(cell)); }

void Sets::note_waiters(const CellKey& cell) { note(several_waiters(cell)); }

bool Sets::is_handed_on(const CellKey& cell) const { return has(of_parts(cell)); }

void Sets::note_handed_on(const CellKey& cell) { note(of_parts(cell)); }

bool Sets::crosses_sums(const CellKey& cell) const { return has(crossed(cell)); }

void Sets::cross_sums(const CellKey& cell) { note(crossed(cell)); }

std::vector<CellKey> Sets::handed_on() const {
  std::vector<CellKey> out;
  for (const CellKey& c : ordered_) {
    const CellKey cell{c.region, c.offset, static_cast<std::uint8_t>(c.size & 0x1F)};
    if (c == of_parts(cell)) out.push_back(cell);
  }
  return out;
}

std::uint32_t Sets::ordered_cells() const {
  const auto counted = std::count_if(ordered_.begin(), ordered_.end(),
                                     [](const CellKey& c) { return (c.size & 0xE0) != 0; });
  return generation_ - static_cast<std::uint32_t>(counted);
}

void Walk::not_a_counter(const CellKey& cell) {
  sets_.turn_off(cell);
  abandon();
}

// The cell's reductions are no set: a counter, or to be ordered.
void Walk::count_or_order(const CellKey& cell) {
  if (may_count(cell)) {
    sets_.count(cell);
  } else {
    sets_.turn_off(cell);
  }
  abandon();
}

bool Walk::may_count(const CellKey& cell) const {
  const Live* one = nullptr;
  for (const std::uint32_t i : events_at(cell)) {
    const Live& l = lives_[i];
    if (!l.executed || !l.red || l.event.write) continue;
    if (one == nullptr) one = &l;
    if (l.access.of_barrier || !commutes(l.combine) || l.combine != one->combine ||
        l.operand != one->operand) {
      return false;
    }
  }
  return true;
}

bool Walk::is_wait_of(const CellKey& cell, const Live& l) const {
  return l.executed && !l.event.write && l.event.cell == cell && l.event.from == kSome;
}

// None where something else was written there, or where what came first is forgotten.
std::optional<Walk::Counter> Walk::counter_of(const CellKey& key) const {
  const machine::Cell* const cell = cell_of(key);
  if (cell == nullptr) return std::nullopt;
  Counter out;
  for (const Message* m = cell->newest; m != nullptr; m = m->older) {
    out.values.push_back(value_of(*m, key.size));
    if (m->initial) {
      if (m->older != nullptr || m->uninitialised) return std::nullopt;
      break;
    }
    const Live* const red = writer(*m, key);
    if (m->older == nullptr || red == nullptr || !red->red || m->source != m->older) {
      return std::nullopt;
    }
    out.reds.push_back(red);
  }
  std::reverse(out.values.begin(), out.values.end());
  std::reverse(out.reds.begin(), out.reds.end());
  for (const Live* red : out.reds) {
    Reds past = 0;
    for (std::size_t i = 0; i < out.reds.size(); ++i) {
      if (out.reds[i] != red && red->past.has(out.reds[i]->event.self)) past |= Reds{1} << i;
    }
    out.past.push_back(past);
  }
  return out;
}

// The reductions that causality puts before a wait: those that it knows of, and the sums of waits
// that it knows of.
void Walk::note_known_reds(const Question& q, Live& wait) const {
  const machine::Machine& machine = execution_->machine();
  std::vector<const Message*> reds;
  for (const Message* m = q.cell->newest; !m->initial && m->older != nullptr; m = m->older) {
    if (machine.knows(q.who, m->at.thread, m->at.time)) wait.known_reds.push_back(name_of(*m));
    reds.push_back(m);
  }
  for (const std::uint32_t i : events_at(wait.event.cell)) {
    const Live& l = lives_[i];
    const std::size_t sum = l.event.after.size();
    if (&l == &wait || !is_wait_of(wait.event.cell, l) || sum == 0 || sum > reds.size()) continue;
    bool known = l.thread == q.who;
    for (const auto* o = reds[reds.size() - sum]->observers; o != nullptr && !known; o = o->next) {
      known = o->at.thread == l.thread && machine.knows(q.who, o->at.thread, o->at.time);
    }
    if (!known) continue;
    wait.known_reds.insert(wait.known_reds.end(), l.event.after.begin(), l.event.after.end());
  }
}

// Whether a reduction or a wait needs no order with a reduction that comes before it here only
// because of what that one's instruction does at another replica (see above).
bool Walk::hands_on(const Question& q, const Live& red) const {
  const machine::Machine& machine = execution_->machine();
  const machine::Policy& policy = machine.policy();
  if (policy.multicast_flag != machine::MulticastFlag::cohere ||
      policy.alias_data != machine::AliasData::cohere) {
    return false;
  }
  const Message* m = q.cell->newest;
  while (m != nullptr && (m->initial || name_of(*m) != red.event.self)) m = m->older;
  if (m == nullptr) return false;
  for (const machine::Entry* e = m->entries; e != nullptr; e = e->next) {
    if (e->at.thread != red.thread) continue;
    if (!machine.knows(q.who, e->at.thread, e->at.time)) return false;
    if (q.kind == machine::AccessKind::rmw &&
        (!machine::releases(q.access->order) || q.access->scope < e->scope)) {
      return false;
    }
  }
  return true;
}

// Whether an access, about to be made, could tell of a counter that is handed on which parts have
// come (see above): then it is none. `counts`: it adds or waits, if it is of that cell.
bool Walk::shows_parts(const CellKey& cell, bool counts) {
  for (const CellKey& c : handed_on_) {
    if (c.region != cell.region || c.offset + c.size <= cell.offset ||
        cell.offset + cell.size <= c.offset || (c == cell && counts) || !sets_.is_counter(c)) {
      continue;
    }
    const std::vector<std::uint32_t>& events = events_at(c);
    if (std::any_of(events.begin(), events.end(),
                    [&](std::uint32_t i) { return lives_[i].executed && lives_[i].red; })) {
      not_a_counter(c);
      return true;
    }
  }
  return false;
}

void Walk::on_uncounted(machine::Address at, std::uint8_t size) {
  if (!abandoned_) shows_parts({at.region, at.offset, size}, false);
}

// Whether an access, about to be made, leaves the cell what it is taken for.
bool Walk::fits_counter(const Question& q, const Live& live) {
  const CellKey& cell = live.event.cell;
  const bool red = q.kind == machine::AccessKind::rmw && !q.result && q.wanted == nullptr;
  const bool wait = q.kind == machine::AccessKind::read && q.wanted != nullptr;
  if (q.access->of_barrier || (q.kind == machine::AccessKind::rmw && !red)) return false;
  const machine::Machine& machine = execution_->machine();
  const Prefix& past = agents_[current_].past;
  const Prefix& of_lane = lane_of(q).past;
  bool handed_on = false, apart = false, relaxed = wait && !machine::acquires(q.access->order);
  if (has_fence()) return false;
  for (const std::uint32_t i : events_at(cell)) {
    const Live& l = lives_[i];
    if (!l.executed || l.event.write) continue;
    const bool before = past.has(l.event.self);
    // Lanes of a warp act in one order, of which nothing here may depend.
    if (before && l.lane != kUnknown && !of_lane.has(l.lane)) {
      // Any other access could be made without that one: see above for reductions and waits alone.
      if (!(red || wait) || !l.red || !by_other_replica(of_lane, l) || !hands_on(q, l))
        return false;
      handed_on = true;
    }
    apart = apart || (wait && !l.red && !before);
    relaxed = relaxed || (!l.red && l.wanted && !machine::acquires(l.access.order));
    const bool other = !l.red && l.event.from != kSome;
    if (other || !(red || wait)) {
      if (!before && (l.red || red)) return false;
      continue;
    }
    if ((l.red || red) && !machine.morally_strong(q.who, *q.access, l.thread, l.access)) {
      return false;
    }
    if (l.red && red && (l.operand != q.operand || l.combine != q.access->combine)) return false;
    if (wait && !l.red && l.thread != q.who && sets_.has_one_waiter(cell)) {
      sets_.note_waiters(cell);
    }
  }
  if (handed_on && is_coherent()) {
    const std::uint16_t site = q.access->site;
    sets_.leave_out({current().label, site, site, LeftOut::What::replicas});
  }
  if (handed_on && !sets_.is_handed_on(cell)) sets_.note_handed_on(cell);
  if ((relaxed || apart) && sets_.is_handed_on(cell)) return false;
  return !red || commutes(q.access->combine);
}

// Whether each wait there ends behind all values that follow one which ends it, and goes on alike.
bool Walk::fits_waits(const CellKey& cell, const Counter& counter) const {
  const std::vector<std::uint32_t>& events = events_at(cell);
  return std::all_of(events.begin(), events.end(), [&](std::uint32_t i) {
    const Live& l = lives_[i];
    if (!is_wait_of(cell, l)) return true;
    const std::uint64_t* first = nullptr;
    for (const std::uint64_t& value : counter.values) {
      if (first == nullptr && l.wanted->holds(value)) first = &value;
      if (first != nullptr && (!l.wanted->holds(value) || !l.wanted->alike(*first, value))) {
        return false;
      }
    }
    return first != nullptr;
  });
}

Walk::Reds Walk::reds_of(const Counter& counter, std::span<const Name> names) const {
  Reds out = 0;
  for (std::size_t i = 0; i < counter.reds.size(); ++i) {
    const Name& self = counter.reds[i]->event.self;
    if (std::find(names.begin(), names.end(), self) != names.end()) out |= Reds{1} << i;
  }
  return out;
}

std::vector<Name> Walk::names_of(const Counter& counter, Reds reds) const {
  std::vector<Name> out;
  for (std::size_t i = 0; i < counter.reds.size(); ++i) {
    if ((reds >> i & 1) != 0) out.push_back(counter.reds[i]->event.self);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Walk::Reds Walk::ahead_of(const Counter& counter, const Live& wait) const {
  Reds out = 0;
  for (std::size_t i = 0; i < counter.reds.size(); ++i) {
    if (wait.ahead.has(counter.reds[i]->event.self)) out |= Reds{1} << i;
  }
  return out;
}

// Whether a part of this sum stands for it.
bool Walk::has_fewer(const Counter& counter, const Live& wait, Reds sum) const {
  if (wait.event.pointed || sets_.crosses_sums(wait.event.cell)) return false;
  const auto size = static_cast<std::size_t>(std::popcount(sum));
  const Reds needed = ahead_of(counter, wait) & sum;
  std::size_t least = static_cast<std::size_t>(std::popcount(needed));
  while (least < size && !wait.wanted->holds(counter.values[least])) ++least;
  if (least == size) return false;
  if (sets_.has_one_waiter(wait.event.cell)) return true;
  for (std::size_t n = least; n < size; ++n) {
    Reds part = 0;
    for (std::size_t i = 0; i < counter.reds.size(); ++i) {
      const auto before = static_cast<std::size_t>(std::popcount(counter.past[i] & sum));
      if ((sum >> i & 1) != 0 && before < n) part |= Reds{1} << i;
    }
    bool cut = static_cast<std::size_t>(std::popcount(part)) == n && (needed & ~part) == 0;
    for (std::size_t i = 0; i < counter.reds.size() && cut; ++i) {
      cut = ((sum & ~part) >> i & 1) == 0 || (part & ~counter.past[i]) == 0;
    }
    if (cut) return true;
  }
  return false;
}

// The sums that a wait may have read of these reductions, with at least the `needed` ones, beside
// the sums of others: closed under the past, enough, and no part of it stands for them. In an
// order that does not depend on this run's; or only the first.
std::vector<Walk::Reds> Walk::sums(const Counter& counter, const Live& wait, Reds among,
                                   Reds needed, const std::vector<Reds>& others, bool first) const {
  std::vector<std::size_t> order;
  for (Reds placed = 0; placed != among;) {
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < counter.reds.size(); ++i) {
      if (((among & ~placed) >> i & 1) == 0 || (counter.past[i] & among & ~placed) != 0) continue;
      const auto rank = [&](std::size_t at) {
        const Name& self = counter.reds[at]->event.self;
        return Name{self.nth, self.agent};
      };
      if (!next || rank(i) < rank(*next)) next = i;
    }
    if (!next) return {};  // a cycle: not consistent
    placed |= Reds{1} << *next;
    order.push_back(*next);
  }
  std::vector<Reds> out;
  std::uint32_t seen = 0;
  const auto fits = [&](Reds sum) {
    return wait.wanted->holds(counter.values[static_cast<std::size_t>(std::popcount(sum))]) &&
           std::all_of(others.begin(), others.end(),
                       [&](Reds o) { return (o & ~sum) == 0 || (sum & ~o) == 0; }) &&
           !has_fewer(counter, wait, sum);
  };
  const auto choose = [&](const auto& self, std::size_t at, Reds sum) -> void {
    if ((first && !out.empty()) || ++seen > kMostSums || schedule::must_stop()) return;
    if (at == order.size()) {
      if ((needed & ~sum) == 0 && fits(sum)) out.push_back(sum);
      return;
    }
    const Reds one = Reds{1} << order[at];
    if ((counter.past[order[at]] & among & ~sum) == 0) self(self, at + 1, sum | one);
    if ((needed & one) == 0) self(self, at + 1, sum);
  };
  choose(choose, 0, 0);
  if (seen > kMostSums) sets_.turn_off(wait.event.cell);  // and the search starts again
  return out;
}

// What the fixed rule gives a wait: at the point of coherence all that is there; else the first one
// that has all of its past. (All that is there would do, if no part of it stood for it.)
std::optional<Walk::Reds> Walk::usual_sum(const Counter& counter, const Live& wait, Reds among,
                                          const std::vector<Reds>& others) const {
  if (wait.event.pointed) {
    if (!wait.wanted->holds(counter.values[static_cast<std::size_t>(std::popcount(among))])) {
      return std::nullopt;
    }
    return among;
  }
  const std::vector<Reds> one =
      sums(counter, wait, among, ahead_of(counter, wait) & among, others, true);
  return one.empty() ? std::nullopt : std::optional(one.front());
}

// The sums of the cell's other waits that are there.
template <class There>
std::vector<Walk::Reds> Walk::other_sums(const Counter& counter, const Live& wait,
                                         There&& there) const {
  std::vector<Reds> out;
  for (const std::uint32_t i : events_at(wait.event.cell)) {
    const Live& l = lives_[i];
    if (&l != &wait && is_wait_of(wait.event.cell, l) && there(i)) {
      out.push_back(reds_of(counter, l.event.after));
    }
  }
  return out;
}

// The last reduction of the sum that the graph gives a wait, if they came first in this run.
const Message* Walk::sum_of(const Question& q, const Event& wait) const {
  const std::optional<Counter> counter = counter_of(wait.cell);
  if (!counter || wait.after.size() > counter->reds.size()) return nullptr;
  if (reds_of(*counter, wait.after) != Counter::first(wait.after.size())) return nullptr;
  const Message* m = q.cell->newest;
  for (std::size_t n = counter->reds.size(); n > wait.after.size(); --n) m = m->older;
  return (q.may & machine::bit(*m)) != 0 ? m : nullptr;
}

// Of a wait that the graph does not have. nullptr: the run is given up.
const Message* Walk::choose_sum(const Question& q, Live& live) {
  const std::optional<Counter> counter = counter_of(live.event.cell);
  live.event.from = kSome;
  bool fits = counter.has_value();
  const std::uint64_t* end = nullptr;
  for (std::size_t n = 0; fits && n < counter->values.size(); ++n) {
    const std::uint64_t& value = counter->values[n];
    if (end == nullptr && q.wanted->holds(value)) end = &value;
    if (end != nullptr) fits = q.wanted->holds(value) && q.wanted->alike(*end, value);
  }
  if (!fits || end == nullptr) {
    not_a_counter(live.event.cell);
    return nullptr;
  }
  const Reds all = counter->all();
  const std::vector<Reds> others = other_sums(*counter, live, [](std::uint32_t) { return true; });
  const std::optional<Reds> usual = usual_sum(*counter, live, all, others);
  if (!usual) {
    not_a_counter(live.event.cell);
    return nullptr;
  }
  const Reds known = q.pointed ? ahead_of(*counter, live) : reds_of(*counter, live.known_reds);
  const auto offer = [&](Reds sum) {
    Graph g = graph();
    g.push_back(live.event);
    g.back().after = names_of(*counter, sum);
    follow(std::move(g));
  };
  for (const Reds sum : sums(*counter, live, all, known, others, false)) {
    if (sum != *usual) offer(sum);
  }
  live.event.after = names_of(*counter, *usual);
  const Message* const chosen = sum_of(q, live.event);
  if (chosen != nullptr && (!q.pointed || chosen == q.cell->newest)) return chosen;
  // In this run others came first.
  const std::vector<Incoming> due = std::move(due_);
  due_.clear();
  for (const Incoming& w : due) revisit(w);
  if (abandoned_) return nullptr;
  offer(*usual);
  abandon();
  return nullptr;
}

// The same of a reduction that came later.
void Walk::revisit_sums(const Incoming& w) {
  const auto there = [&](std::uint32_t i, std::uint32_t by) {
    return i < by || (i < w.limit && w.past.has(lives_[i].event.self));
  };
  std::vector<std::uint32_t> waits;
  for (const std::uint32_t i : events_before(w.cell, w.limit)) {
    const Live& r = lives_[i];
    if (r.event.write || w.past.has(r.event.self)) continue;
    if (r.red && w.red) continue;
    if (!w.red || !is_wait_of(w.cell, r)) return not_a_counter(w.cell);
    waits.push_back(i);
  }
  if (!w.red) return;
  const std::optional<Counter> counter = counter_of(w.cell);
  if (!counter || !fits_waits(w.cell, *counter)) return not_a_counter(w.cell);
  for (const std::uint32_t i : waits) {
    const Live& r = lives_[i];
    bool deletable = maximal(i, w);
    for (std::uint32_t j = i + 1; j < w.limit && deletable; ++j) {
      deletable = w.past.has(lives_[j].event.self) || maximal(j, w);
    }
    if (!deletable) continue;
    Reds among = 0, needed = 0;
    for (std::size_t k = 0; k < counter->reds.size(); ++k) {
      const Live* const red = counter->reds[k];
      if (there(static_cast<std::uint32_t>(red - lives_.data()), i)) among |= Reds{1} << k;
      if (red->event.self == w.self) needed |= Reds{1} << k;
    }
    needed |= (r.event.pointed ? ahead_of(*counter, r) : reds_of(*counter, r.known_reds)) & among;
    const auto others = other_sums(*counter, r, [&](std::uint32_t at) { return there(at, i); });
    for (const Reds sum : sums(*counter, r, among, needed, others, false)) {
      Graph g = restricted(i, w, false);
      const auto at = std::find_if(g.begin(), g.end(), [&](const Event& e) {
        return !e.write && e.self == r.event.self && e.piece == r.event.piece;
      });
      at->from = kSome;
      at->after = names_of(*counter, sum);
      follow(std::move(g));
    }
  }
}

// Whether the fixed rule gives a wait the sum that it has: see maximal().
bool Walk::is_usual_sum(std::uint32_t event, const Incoming& w) const {
  const Live& e = lives_[event];
  const std::optional<Counter> counter = counter_of(e.event.cell);
  if (!counter || !e.wanted) return false;
  const auto there = [&](std::uint32_t i) {
    return i < event ||
           (i < w.limit && w.past.has(lives_[i].event.self) && lives_[i].event.self != w.self);
  };
  Reds among = 0;
  for (std::size_t k = 0; k < counter->reds.size(); ++k) {
    if (there(static_cast<std::uint32_t>(counter->reds[k] - lives_.data()))) among |= Reds{1} << k;
  }
  return usual_sum(*counter, e, among, other_sums(*counter, e, there)) ==
         std::optional(reds_of(*counter, e.event.after));
}

// Whether a wait that was there before has this reduction in its sum.
bool Walk::is_summed(std::uint32_t event) const {
  const Event& red = lives_[event].event;
  const std::span<const std::uint32_t> events = events_before(red.cell, event);
  return std::any_of(events.begin(), events.end(), [&](std::uint32_t i) {
    const Event& wait = lives_[i].event;
    const std::vector<Name>& sum = wait.after;
    return !wait.write && wait.from == kSome &&
           std::find(sum.begin(), sum.end(), red.self) != sum.end();
  });
}

// A wait that cannot end now: no value before the last one may end it.
void Walk::check_blocked(const Question& q) {
  const CellKey cell{q.at.region, q.at.offset, q.size};
  bool reds = false, ends = false;
  for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
    reds = reds || !m->initial;
    ends = ends || q.wanted == nullptr || q.wanted->holds(value_of(*m, cell.size));
  }
  if (reds && (ends || q.kind == machine::AccessKind::rmw)) not_a_counter(cell);
}

// Nobody can step along the graph: whether a reduction stands behind one of its cell that a sum has
// and that is still to come. Sums are consistent cell by cell; with those of another cell they may
// not be those of any order of execution (see above).
bool Walk::note_crossed_sums() {
  bool fresh = false;
  for (std::uint32_t at = 0; at < given_; ++at) {
    const Live& l = lives_[at];
    if (l.executed || !l.event.write || l.event.pointed || !sets_.is_counter(l.event.cell))
      continue;
    for (const std::uint32_t other : waits_for_[at]) {
      const Live& first = lives_[other];
      if (!waits(at, other) || !first.event.write || first.event.cell != l.event.cell) continue;
      if (!sets_.crosses_sums(l.event.cell)) fresh = true;
      sets_.cross_sums(l.event.cell);
    }
  }
  if (fresh) abandon();
  return fresh;
}

// What of the given graph must be executed before a reduction: the sum of a wait that it is not
// part of, and at the point of coherence the wait itself.
void Walk::relate_sum(std::uint32_t wait, std::span<const std::uint32_t> writes) {
  const Event& event = lives_[wait].event;
  std::vector<std::uint32_t> sum;
  for (const Name& name : event.after) {
    if (const std::uint32_t at = find_write(name, event.cell); at != kNone) sum.push_back(at);
  }
  for (const std::uint32_t w : writes) {
    if (std::find(sum.begin(), sum.end(), w) != sum.end()) continue;
    waits_for_[w].insert(waits_for_[w].end(), sum.begin(), sum.end());
    if (event.pointed) waits_for_[w].push_back(wait);
  }
}

}  // namespace ringfence::check

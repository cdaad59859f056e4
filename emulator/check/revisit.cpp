// Backward revisits: which earlier reads could have returned a write, and what is left of the graph
// then; and the rule for sets of reductions.

#include <algorithm>
#include <map>

#include "emulator/check/walk.hpp"

namespace ringfence::check {

using machine::bit;
using machine::Message;
using machine::MessageSet;
using schedule::AgentId;
using schedule::kNoAgent;

void Walk::finish(bool found) {
  if (by_weak_ && !found) {  // no race came of it
    sets_.leave_out(*by_weak_);
    unfair_ = abandoned_ = true;
  }
  note_unordered();
  note_overtaken();
  note_raced();
  if (abandoned_) note_unsettled();
  if (abandoned_ || remaining_ > 0) return;
  leave_step();
  const std::vector<Incoming> due = std::move(due_);
  due_.clear();
  for (const Incoming& w : due) revisit(w);
  if (in_vain_) unfair_ = abandoned_ = true;
  if (!abandoned_ && open_ends_) find_ends();
  if (abandoned_) return;
  note_fences();
  note_sizes();
  note_late_starts();
}

// Exchanges of one cell with other values do not commute, but where nobody reads the cell behind
// two of them (check_set_read) only the last one can be told. Any of them can be it that is in no
// other one's past. For let e be such a one, and order the events of the run so that each follows
// its past, and the other exchanges of the cell precede e: there is no cycle in that, as none of
// them has e in its past. The exchanges, one behind the other in this order, are morally strong and
// each reads the one before (axiom Atomicity), so coherence, reads-from and from-reads in the cell
// agree with it, as program order and synchronisation do: Coherence and SC per location hold. What
// one of them reads nobody uses, and it acquires nothing, so Causality and No Thin Air find the
// rest of the execution as it was. Fence-sc order is not part of the past: with such a fence in the
// run, or with a second cell of the kind (whose last write may contradict this one's), orders are
// explored.
void Walk::find_ends() {
  std::map<CellKey, std::vector<const Live*>> exchanges;
  for (const Live& l : lives_) {
    if (!l.executed || !l.red || !l.event.write || !sets_.is_set(l.event.cell)) continue;
    if (l.access.combine == machine::Combine::exchange) exchanges[l.event.cell].push_back(&l);
  }
  for (const auto& [cell, all] : exchanges) {
    const bool same = std::all_of(
        all.begin(), all.end(), [&](const Live* l) { return l->operand == all.front()->operand; });
    if (!same && !abandoned_) find_end(cell, all);
  }
}

void Walk::find_end(const CellKey& key, const std::vector<const Live*>& exchanges) {
  const machine::Cell* const cell = cell_of(key);
  const bool fences = has_fence();
  if (cell == nullptr || fences || !ends_.empty()) return not_a_set(key);
  for (const Message* m = cell->newest; m != nullptr; m = m->older) {
    const Live* const other = writer(*m, key);
    if (other == nullptr || other->red) continue;
    const bool behind = std::all_of(exchanges.begin(), exchanges.end(),
                                    [&](const Live* e) { return other->past.has(e->event.self); });
    if (behind) return;  // none of them is the last
    const bool ahead = std::all_of(exchanges.begin(), exchanges.end(),
                                   [&](const Live* e) { return e->past.has(other->event.self); });
    if (!ahead) return not_a_set(key);
  }
  OpenEnd end{key, {}};
  for (const Live* e : exchanges) {
    const bool last = std::none_of(exchanges.begin(), exchanges.end(), [&](const Live* other) {
      return other != e && other->past.has(e->event.self);
    });
    if (!last || std::find(end.values.begin(), end.values.end(), e->operand) != end.values.end()) {
      continue;
    }
    end.values.push_back(e->operand);
  }
  ends_.push_back(std::move(end));
}

void Walk::on_blocked(const Question& q) {
  if (abandoned_) return;
  const CellKey cell{q.at.region, q.at.offset, q.size};
  if (asking_blocked_ != kNoAgent) {
    if (q.pointed && is_coherent() && q.wanted != nullptr) note_sooner(q);
    if (q.kind != machine::AccessKind::rmw) return;
    Event read;
    read.self = {agents_[asking_blocked_].index, agents_[asking_blocked_].nth};
    read.pointed = q.pointed;
    read.cell = cell;
    name_lane(read, q);
    revisit_taken(q, read);
    return;
  }
  if (current_ != kNoAgent) {
    if (is_of_current(q.who)) note_look_over(q);
    const Name self{agents_[current_].index, agents_[current_].nth};
    const std::uint32_t given = find(self, piece_, false);
    if (given != kNone && !lives_[given].executed && lives_[given].event.stuck &&
        is_of_current(q.who) && is_given(given, q) && q.wanted != nullptr) {
      sticks(q, given);
    }
  }
  if (sets_.is_counter(cell)) return check_blocked(q);
  if (!sets_.is_set(cell)) return;
  if (q.access->of_barrier) return check_look(q);
  // Where a part of the reductions would satisfy the wait, or their sizes differ, order matters.
  bool reds = false, mixed = false;
  std::uint64_t operand = 0;
  for (const std::uint32_t i : events_at(cell)) {
    const Live& l = lives_[i];
    if (!l.executed || !l.red || l.event.write) continue;
    mixed = mixed || (reds && l.operand != operand);
    reds = true;
    operand = l.operand;
  }
  bool part = false;
  for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
    part = part || ((q.may & bit(*m)) != 0 && q.wanted->holds(value_of(*m, cell.size)));
  }
  if (reds && mixed) return not_a_set(cell);
  if (reds && (part || ends_on_part(q))) count_or_order(cell);
}

// Whether a part of the reductions would end the wait if they came first, with those that precede
// the wait in any case. Their operands are equal. Where something else was written behind some of
// them, and the wait does not know of it, it may have come before that.
bool Walk::ends_on_part(const Question& q) const {
  const CellKey key{q.at.region, q.at.offset, q.size};
  std::vector<std::uint64_t> values;  // behind all of them, all but one, ...
  std::size_t known = 0;
  std::size_t left = 1;  // what is newest is the caller's
  for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
    values.push_back(value_of(*m, q.size));
    const Live* const write = writer(*m, key);
    const bool knows =
        write != nullptr && execution_->machine().knows(q.who, m->at.thread, m->at.time);
    if (write != nullptr && write->red) {
      if (knows) ++known;
      continue;
    }
    for (; left + known < values.size(); ++left) {
      if (q.wanted->holds(values[left])) return true;
    }
    if (write == nullptr || knows) return false;
    values.clear();
    known = left = 0;
  }
  return false;
}

void Walk::not_a_set(const CellKey& cell) {
  sets_.turn_off(cell);
  abandon();
}

bool Walk::as_set(machine::Address at) const {
  const machine::Cell* cell = execution_->machine().cell_at(at);
  if (cell == nullptr) return false;
  const CellKey key{at.region, at.offset, cell->size};
  return sets_.is_set_or_counter(key) && piece_ > 0 && [&] {
    const std::uint32_t read =
        find({agents_[current_].index, agents_[current_].nth}, piece_ - 1, false);
    return read != kNone && lives_[read].red;
  }();
}

// The steps of a barrier are a set while each has all of the generation before in its past, each
// look at an mbarrier would see the same number of complete phases whenever it is made, and no
// order of its steps overruns a phase or ends one early: then the order of steps decides nothing.
void Walk::check_barrier_step(const Question& q, const Live& live) {
  const CellKey cell{q.at.region, q.at.offset, q.size};
  const Prefix& past = agents_[current_].past;
  if (!live.red) return check_look(q);
  const machine::StepValue step = machine::unpack(q.operand);
  for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
    if (m->initial || machine::unpack(value_of(*m, q.size)).joined + 1 != step.joined) continue;
    if (!past.has(name_of(*m))) return not_a_set(cell);
  }
  if (step.arrives && step.joined > 1 && !was_awaited(q, step.joined - 1)) return not_a_set(cell);
  if (step.completed == machine::unpack(value_of(*q.cell->newest, q.size)).completed) return;
  if (!is_expected_first(q, step)) return not_a_set(cell);
  // It completes a phase: looks before it have seen one less.
  for (const std::uint32_t i : events_at(cell)) {
    const Live& l = lives_[i];
    if (!l.executed || l.event.write || l.red) continue;
    if (!past.has(l.event.self)) return not_a_set(cell);
    if (left_out(current().index, q.access->site, past, lane_of(q).past, l)) return;
  }
}

// Whether a wait that saw so many phases of an mbarrier complete is in the past: else the arrival
// in the next one may come before it (PTX ISA 9.7.15.16.5.1). Of a look that is no wait nobody
// knows here what it was told. Where it is so only because lanes of the warp act in the order in
// which they do, another order is left out.
bool Walk::was_awaited(const Question& q, std::uint32_t phases) {
  const CellKey cell{q.at.region, q.at.offset, q.size};
  const Prefix& past = agents_[current_].past;
  const Prefix& of_lane = lane_of(q).past;
  Name init = kUnknown;
  for (const Message* m = q.cell->newest; m != nullptr && init == kUnknown; m = m->older) {
    if (!m->initial && machine::unpack(value_of(*m, q.size)).joined == 0) init = name_of(*m);
  }
  const Live* other_lanes = nullptr;
  for (const std::uint32_t i : events_at(cell)) {
    const Live& l = lives_[i];
    if (!l.executed || l.event.write || l.red || !l.wanted ||
        machine::unpack(l.operand).completed != phases || !past.has(l.event.self) ||
        (init != kUnknown && !l.past.has(init))) {
      continue;
    }
    if (l.lane == kUnknown || of_lane.has(l.lane)) return true;
    other_lanes = &l;
  }
  if (other_lanes == nullptr) return false;
  sets_.leave_out({current().label, other_lanes->access.site, q.access->site});
  return true;
}

// Whether what makes this phase wait for more precedes some arrival that the phase counts from its
// beginning: else that arrival may complete the phase without it.
bool Walk::is_expected_first(const Question& q, const machine::StepValue& step) const {
  const CellKey cell{q.at.region, q.at.offset, q.size};
  std::vector<Name> raises;
  std::vector<const Prefix*> counted;
  if (step.arrives && !step.raises) counted.push_back(&agents_[current_].past);
  for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
    const machine::StepValue other = machine::unpack(value_of(*m, q.size));
    if (!m->initial && other.joined == 0) break;
    if (m->initial || other.joined != step.joined) continue;
    const Live* const live = writer(*m, cell);
    if (other.raises) {
      raises.push_back(name_of(*m));
    } else if (other.arrives && live != nullptr) {
      counted.push_back(&live->past);
    }
  }
  return std::all_of(raises.begin(), raises.end(), [&](const Name& name) {
    return std::any_of(counted.begin(), counted.end(),
                       [&](const Prefix* past) { return past->has(name); });
  });
}

// A look, or a wait that cannot end now.
void Walk::check_look(const Question& q) {
  const std::uint64_t seen = value_of(*q.cell->newest, q.size) >> 32;
  const Prefix& past = agents_[current_].past;
  for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
    const std::uint64_t value = value_of(*m, q.size);
    // What a wait waits for comes in any order; a look, or a wait that the phase before ends as
    // well, may come before a step that a phase needs, though it is the looker's own that completed
    // it.
    const std::uint32_t joined = machine::unpack(value).joined;
    if (!m->initial && joined != 0 && joined <= seen && !past.has(name_of(*m)) &&
        (q.wanted == nullptr || q.wanted->holds(machine::pack({.completed = joined - 1})))) {
      return not_a_set({q.at.region, q.at.offset, q.size});
    }
    if ((q.may & bit(*m)) == 0 || value >> 32 == seen) continue;
    if (q.wanted == nullptr || q.wanted->holds(value)) {
      return not_a_set({q.at.region, q.at.offset, q.size});
    }
  }
}

// A read of a cell with reductions, in a run that takes them for a set.
void Walk::check_set_read(const Question& q, const Live& live, std::size_t candidates) {
  if (q.access->of_barrier) return check_barrier_step(q, live);
  const CellKey& cell = live.event.cell;
  const Prefix& past = agents_[current_].past;
  // Lanes of a warp are threads: what another one did need not come before, though the warp did it.
  const Prefix& of_lane = lane_of(q).past;
  const auto before = [&](const Live& l) {
    return past.has(l.event.self) && (l.lane == kUnknown || of_lane.has(l.lane));
  };
  bool reds = live.red, others = false, mixed = false, unlike = false, strong = true;
  std::uint64_t operand = live.operand;
  machine::Combine combine = live.combine;
  for (const std::uint32_t i : events_at(cell)) {
    const Live& l = lives_[i];
    if (!l.executed || l.event.write) continue;
    // Of others it can be told which one they read.
    if ((l.red || live.red) && (l.red || l.wanted) && (live.red || live.wanted)) {
      strong = strong && execution_->machine().morally_strong(q.who, *q.access, l.thread, l.access);
    }
    if (l.red) {
      mixed = mixed || (reds && l.operand != operand);
      unlike = unlike || (reds && l.combine != combine);
      if (!reds) {
        operand = l.operand;
        combine = l.combine;
      }
      reds = true;
      if (!live.red && !live.wanted) others = others || !before(l);
    } else if (live.red ? !before(l) : !live.past.has(l.event.self)) {
      others = true;
    }
  }
  if (!reds) return;
  // An add and a max, or two exchanges, do not commute; of exchanges the last one alone may be
  // told.
  const bool open = open_ends_ && live.red && combine == machine::Combine::exchange;
  bool fine = candidates == 1 && strong && !((live.red || !live.wanted) && others) && !unlike &&
              !(mixed && !commutes(combine) && !open);
  if (live.wanted) {
    fine =
        fine && !mixed && q.wanted->holds(value_of(*q.cell->newest, cell.size)) && !ends_on_part(q);
  }
  if (!fine) count_or_order(cell);
}

const machine::Cell* Walk::cell_of(const CellKey& key) const {
  const machine::Cell* cell = execution_->machine().cell_at({key.region, key.offset});
  return cell != nullptr && cell->size == key.size ? cell : nullptr;
}

// The history of an event's cell, also where an access of another size came behind it and cut the
// cell. Accesses of different sizes are never morally strong (PTX ISA 8.7: complete overlap), so
// where nothing races causality orders each pair of them, one of which writes: what came before the
// cut is in the past of what made it, and what is left of the cell has it all. Its first part has
// the messages by their numbers, their whole values, and coherence among them; what was added to
// that part since has the event in its past, so that nothing that an axiom asks of the event is
// missing or new. Of a cell that is no longer to be told (what is there now is wider, or begins
// before it) nothing is known: the orders in which the event is made later are left out.
const machine::Cell* Walk::history_of(const Live& event) const {
  const CellKey& key = event.event.cell;
  const machine::Cell* cell = execution_->machine().cell_at({key.region, key.offset});
  if (cell != nullptr && cell->size <= key.size &&
      cell->offset == key.offset % machine::kLineBytes) {
    return cell;
  }
  const std::uint16_t site = event.access.site;
  sets_.leave_out({names_of_.label(event.event.self.agent), site, site, LeftOut::What::resized});
  return nullptr;
}

// A read-modify-write that may not take a message because another one has, or because its write
// would then outdate a read that was made: it could have been the first, and the other one (or
// whatever came after) would have read from it.
void Walk::revisit_taken(const Question& q, const Event& read) {
  for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
    if ((q.may & ~q.takes & bit(*m)) == 0) continue;
    const std::uint64_t value = value_of(*m, q.size);
    if (q.wanted != nullptr && !q.wanted->holds(value)) continue;
    if (q.compare != nullptr && value != *q.compare) continue;
    revisit_as_first(q, read, *m, true);
    if (abandoned_) return;
  }
}

// `fresh`: the read is not in the graph yet.
void Walk::revisit_as_first(const Question& q, const Event& read, const Message& m, bool fresh) {
  Incoming w;
  w.self = read.self;
  w.cell = read.cell;
  w.past = agents_[current_].past;
  w.lane_past = lane_of(q).past;
  w.site = q.access->site;
  // Axiom Atomicity: what took the message is in the way only where the write lands behind it.
  const machine::Access other{
      .order = m.order, .scope = m.scope, .element = m.element, .proxy = m.proxy};
  const bool behind = m.initial || (q.known & bit(m)) != 0 ||
                      execution_->machine().morally_strong(q.who, *q.access, m.at.thread, other);
  if (const Live* source = writer(m, read.cell); source != nullptr) {
    w.past.join(source->carried);
    w.lane_past.join(source->lane_carried);
  }
  for (const Message* x = q.cell->newest; x != nullptr; x = x->older) {
    if (x->source != &m || !x->source_strong || !behind) continue;
    // Axiom Atomicity takes nothing away from what it is not morally strong with.
    const machine::Access its{
        .order = x->order, .scope = x->scope, .element = x->element, .proxy = x->proxy};
    if (!execution_->machine().morally_strong(q.who, *q.access, x->at.thread, its)) continue;
    // What takes it away is needed.
    if (const Live* const taker = writer(*x, read.cell); taker != nullptr) {
      if (left_out(w.self.agent, w.site, w.past, w.lane_past, *taker)) return;
    }
    if (w.past.has(name_of(*x)) || name_of(*x) == kUnknown) return;
  }
  w.past.add(read.self);
  if (q.compare != nullptr) w.value = q.operand;
  w.limit = lives_.size();
  if (fresh) {
    w.own.push_back(read);
    w.own.back().from = name_of(m);
  }
  w.own.push_back(read);
  w.own.back().write = w.own.back().open = true;
  for (const Message* x = q.cell->newest; x != nullptr; x = x->older) {
    if ((x->before & bit(m)) != 0) w.own.back().after.push_back(name_of(*x));
  }
  revisit(w);
}

void Walk::revisit(const Incoming& w) {
  if (abandoned_) return;
  const bool counter = sets_.is_counter(w.cell);
  const bool set = sets_.is_set_or_counter(w.cell);
  const std::span<const std::uint32_t> events = events_before(w.cell, w.limit);
  for (const std::uint32_t i : events) {
    const Live& r = lives_[i];
    if (r.event.write || (set && r.red && w.red)) continue;
    if (left_out(w.self.agent, w.site, w.past, w.lane_past, r)) return;
  }
  if (counter) return revisit_sums(w);
  if (set) {
    for (const std::uint32_t i : events) {
      const Live& r = lives_[i];
      if (r.event.write || w.past.has(r.event.self)) continue;
      if (r.red != w.red && !r.access.of_barrier) return count_or_order(w.cell);
    }
    if (w.red) return;
  }
  for (const std::uint32_t i : events) {
    const Live& r = lives_[i];
    if (r.event.write || w.past.has(r.event.self)) continue;
    if (r.event.from == kLater || has_stand_in(r, w)) continue;
    bool deletable = maximal(i, w);
    for (std::uint32_t j = i + 1; j < w.limit && deletable; ++j) {
      deletable = w.past.has(lives_[j].event.self) || maximal(j, w);
    }
    if (!deletable) continue;
    const bool may_end = !r.wanted || !w.value || r.wanted->holds(*w.value);
    const bool may_fail = r.wanted && (!w.value || !r.wanted->holds(*w.value));
    if (may_end) follow(restricted(i, w, false));
    if (may_fail) follow(restricted(i, w, true));
  }
}

// Whether the run's fixed rule adds this event as it is, had it known only what has a smaller stamp
// and what the incoming write needs.
bool Walk::maximal(std::uint32_t event, const Incoming& w) const {
  return lives_[event].event.write ? maximal_write(event, w) : maximal_read(event, w);
}

bool Walk::maximal_read(std::uint32_t event, const Incoming& w) const {
  const Live& e = lives_[event];
  // What others read nobody takes away. But order of execution may have it overwritten.
  const bool in_order = e.event.pointed && is_coherent();
  if (e.event.stuck && !((e.rmw || in_order) && e.wanted)) return false;
  if (e.event.cell == kLanes) return e.event.from == kFirstOption;
  if (e.event.from == kTotal || e.event.from == kLater) return true;
  if (e.event.from == kSome) return is_usual_sum(event, w);
  const machine::Cell* cell = history_of(e);
  if (cell == nullptr) return false;
  const Before* given = e.event.cell == w.cell ? w.before.get() : nullptr;
  std::vector<const Message*> there;
  MessageSet excluded = 0;
  for (const Message* m = cell->newest; m != nullptr; m = m->older) {
    // What came behind the read may have the number of a message that was forgotten since.
    const bool known = m->step < e.steps && (e.known & bit(*m)) != 0;
    if (known) excluded |= before(*m, given);
    const auto at = writes_.find(key_of(*m, e.event.cell));
    // A weak write is no event where races end a run; without one, causality orders it before or
    // after this read, and the run does so too. Nothing comes after a poll that is stuck: what
    // causality does not put before it races with its looks, and may not have been there yet.
    const bool there_anyway = e.event.stuck ? known : m->step < e.steps;
    const bool earlier =
        m->initial || (at == writes_.end() && there_anyway) ||
        (at != writes_.end() && (at->second < event || (at->second < w.limit &&
                                                        w.past.has(lives_[at->second].event.self) &&
                                                        lives_[at->second].event.self != w.self)));
    if (earlier) there.push_back(m);
  }
  if (e.wanted) {
    const std::vector<const Message*> all = there;
    std::erase_if(there, [&](const Message* m) {
      if (!e.wanted->holds(value_of(*m, e.event.cell.size)) || (excluded & bit(*m)) != 0)
        return true;
      return e.rmw && std::any_of(all.begin(), all.end(), [&](const Message* x) {
               return x->source == m && x->source_strong;
             });
    });
    std::erase_if(there, [&](const Message* m) { return has_stand_in(e, *cell, *m); });
    if (e.event.stuck) {
      if (in_order && !there.empty()) {
        const Prefix sooner = order_before(event, w);
        std::erase_if(there, [&](const Message* m) {
          return std::any_of(all.begin(), all.end(), [&](const Message* x) {
            return (before(*x, given) & bit(*m)) != 0 && sooner.has(name_of(*x));
          });
        });
      }
      if (!there.empty()) return false;
      there = all;
      std::erase_if(there, [&](const Message* m) {
        return e.wanted->holds(value_of(*m, e.event.cell.size));
      });
    }
  }
  const Message* const best = last(there, given);
  return best != nullptr && name_of(*best) == e.event.from;
}

bool Walk::maximal_write(std::uint32_t event, const Incoming& w) const {
  const Live& e = lives_[event];
  const auto earlier = [&](std::uint32_t at) {
    return at < event ||
           (at < w.limit && w.past.has(lives_[at].event.self) && lives_[at].event.self != w.self);
  };
  if (e.event.cell == kFences) {
    for (std::uint32_t i = 0; i < lives_.size(); ++i) {
      const Live& x = lives_[i];
      if (i == event || x.event.cell != kFences || !earlier(i) || !strong_fences(e, x)) continue;
      if (i < event ? overtakes(e.event, x.event) : !overtakes(x.event, e.event)) return false;
    }
    return true;
  }
  if (e.red && sets_.is_set(e.event.cell)) return true;
  if (e.red && sets_.is_counter(e.event.cell)) return !is_summed(event);
  const machine::Cell* cell = history_of(e);
  if (cell == nullptr) return false;
  const Before* given = e.event.cell == w.cell ? w.before.get() : nullptr;
  const Message* mine = nullptr;
  for (const Message* m = cell->newest; m != nullptr; m = m->older) {
    if (!m->initial && name_of(*m) == e.event.self) mine = m;
  }
  if (mine == nullptr) return false;
  // Axiom Atomicity puts behind an atomic's write what is behind the write that it read.
  MessageSet forced = 0;
  for (const Message* m = cell->newest; m != nullptr && mine->rmw; m = m->older) {
    if (m != mine->source) continue;
    for (const Message* x = cell->newest; x != nullptr; x = x->older) {
      const machine::Access its{
          .order = x->order, .scope = x->scope, .element = x->element, .proxy = x->proxy};
      if ((before(*x, given) & bit(*m)) != 0 && x != mine && !x->initial &&
          execution_->machine().morally_strong(e.thread, e.access, x->at.thread, its)) {
        forced |= bit(*x);
      }
    }
  }
  for (const Message* m = cell->newest; m != nullptr; m = m->older) {
    const MessageSet sooner = before(*m, given);
    if ((sooner & bit(*mine)) == 0) continue;
    if (((sooner | bit(*m)) & forced) != 0) continue;
    const auto at = writes_.find(key_of(*m, e.event.cell));
    if (at != writes_.end() && earlier(at->second)) return false;
  }
  for (std::uint32_t i = 0; i < event; ++i) {
    const Event& r = lives_[i].event;
    if (!r.write && r.cell == e.event.cell && r.from == e.event.self) return false;
  }
  return true;
}

Graph Walk::restricted(std::uint32_t read, const Incoming& w, bool stuck) const {
  Graph g;
  for (std::uint32_t i = 0; i < w.limit; ++i) {
    const Event& e = lives_[i].event;
    if (i == read) {
      g.push_back(e);
      g.back().from = w.self;
      g.back().stuck = stuck;
      g.back().late = false;
      g.back().after.clear();
      continue;
    }
    if (i > read && !w.past.has(e.self)) continue;
    const bool own = std::any_of(w.own.begin(), w.own.end(), [&](const Event& o) {
      return o.self == e.self && o.piece == e.piece && o.write == e.write;
    });
    if (!own) g.push_back(e);
  }
  g.insert(g.end(), w.own.begin(), w.own.end());
  return g;
}

std::uint64_t Walk::fingerprint() const {
  const auto mix = [](std::uint64_t h) {
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return h ^ (h >> 31);
  };
  const auto hash = [&](const Name& n) {
    return n.agent == kInitial.agent
               ? mix(n.nth + 1)
               : mix(names_of_.label(n.agent) ^ mix(std::uint64_t{n.nth} << 8));
  };
  std::uint64_t sum = 0;
  std::set<CellKey> cells;
  for (const Live& l : lives_) {
    const Event& e = l.event;
    sum += mix(hash(e.self) + e.piece * 2u + (e.write ? 1 : 0) + (e.write ? 0 : 3 * hash(e.from)) +
               (e.stuck ? 7 : 0));
    if (e.from == kSome) {
      for (const Name& n : e.after) sum += mix(17 * hash(e.self) + 19 * hash(n));
    }
    if (e.cell != kFences && e.cell != kLanes) cells.insert(e.cell);
  }
  for (const CellKey& key : cells) {
    const machine::Cell* cell = cell_of(key);
    if (cell == nullptr) continue;
    if (sets_.is_set_or_counter(key) &&
        std::any_of(events_at(key).begin(), events_at(key).end(),
                    [&](std::uint32_t i) { return lives_[i].red; })) {
      continue;
    }
    for (const Message* a = cell->newest; a != nullptr; a = a->older) {
      for (const Message* b = cell->newest; b != nullptr; b = b->older) {
        if ((a->before & bit(*b)) != 0) sum += mix(3 * hash(name_of(*a)) + 5 * hash(name_of(*b)));
      }
    }
  }
  for (std::size_t i = 0; i < lives_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Live &a = lives_[j], &b = lives_[i];
      if (a.event.cell != kFences || b.event.cell != kFences || !strong_fences(a, b)) continue;
      const bool swap = overtakes(b.event, a.event);
      sum += mix(11 * hash((swap ? b : a).event.self) + 13 * hash((swap ? a : b).event.self));
    }
  }
  return sum;
}

}  // namespace ringfence::check

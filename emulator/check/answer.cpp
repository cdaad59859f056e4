// What a read returns and where a write lands in a run, and which graphs follow from that.

#include <algorithm>
#include <iterator>

#include "emulator/check/walk.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::check {

using machine::bit;
using machine::Message;
using machine::MessageSet;

namespace {

CellKey cell_asked(const machine::Arbiter::Question& q) {
  return {q.at.region, q.at.offset, q.size};
}

}  // namespace

// -- reads ----------------------------------------------------------------------------------------

// The last in coherence order; of several (racing writes are unordered) the one of the last name.
const Message* Walk::last(const std::vector<const Message*>& among, const Before* given) const {
  MessageSet earlier = 0;
  for (const Message* m : among) earlier |= before(*m, given);
  const Message* best = nullptr;
  for (const Message* m : among) {
    if ((earlier & bit(*m)) != 0) continue;
    if (best == nullptr || name_of(*best) == kInitial ||
        (name_of(*m) != kInitial && name_of(*best) < name_of(*m))) {
      best = m;
    }
  }
  return best;
}

// A look in vain that writes what it found is no event. To those that are morally strong with it
// its write says nothing; one that is not it may come behind, in coherence order, of which both are
// then the last ones.
void Walk::note_look_over(const Question& q) {
  if (!weak_events_ || q.kind != machine::AccessKind::rmw || q.wanted == nullptr) return;
  if (q.wanted->condition == nullptr) return;
  bool in_vain = false;
  for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
    const std::uint64_t value = value_of(*m, q.size);
    in_vain = in_vain || ((q.may & bit(*m)) != 0 && !q.wanted->holds(value) &&
                          q.wanted->condition->writes(value));
  }
  for (const Message* m = q.cell->newest; m != nullptr && in_vain; m = m->older) {
    const machine::Access its{
        .order = m->order, .scope = m->scope, .element = m->element, .proxy = m->proxy};
    if (m->initial || (q.known & bit(*m)) != 0 ||
        execution_->machine().morally_strong(q.who, *q.access, m->at.thread, its)) {
      continue;
    }
    sets_.leave_out({current().label, q.access->site, m->site, LeftOut::What::look});
  }
}

// The same where the write comes when the wait is over.
void Walk::note_write_under(const Question& q, const Message& m) {
  if (!weak_events_) return;
  const CellKey cell = cell_asked(q);
  const auto in_vain = [&](const Live& look) {
    bool vain = false;
    for (const Message* x = q.cell->newest; x != nullptr; x = x->older) {
      const std::uint64_t value = value_of(*x, q.size);
      // Behind what the wait ended with, in coherence order, it is behind all of its looks.
      if (name_of(*x) == look.event.self && (m.before & bit(*x)) != 0) return false;
      vain = vain || (!look.wanted->holds(value) && look.condition->writes(value));
    }
    return vain;
  };
  for (const std::uint32_t i : events_at(cell)) {
    const Live& l = lives_[i];
    if (!l.executed || l.event.write || !l.rmw || !l.condition || l.thread == q.who ||
        !in_vain(l) || execution_->machine().morally_strong(q.who, *q.access, l.thread, l.access)) {
      continue;
    }
    const std::uint64_t label = names_of_.label(l.event.self.agent);
    sets_.leave_out({label, l.access.site, m.site, LeftOut::What::look});
  }
}

// Whether the graph's event is what the run has come to.
bool Walk::is_given(std::uint32_t event, const Question& q) const {
  const Event& e = lives_[event].event;
  const std::uint8_t thread = thread_number(current_, q.who);
  return e.cell == cell_asked(q) &&
         (e.thread == thread || e.thread == Event::kNoThread || thread == Event::kNoThread);
}

// Whether an event that the graph does not have comes behind all that it has of its agent.
bool Walk::is_new(const Name& self) const {
  return self.agent >= given_last_.size() || given_last_[self.agent] <= self.nth;
}

// An agent that repeats the graph comes to another event than it did. With other values foreseen
// the program may have gone another way. Else this run has not repeated what led to the graph
// (which parts of a warp waited while others went on), and what the graph stands for is not
// explored.
void Walk::diverge(std::uint16_t site) {
  if (foresight_ == nullptr) {
    sets_.leave_out({current().label, site, site, LeftOut::What::unreached});
  }
  abandon();
}

void Walk::on_read(const Question& q, std::span<Message* const> options) {
  prepared_ = 0;
  asked_ = !q.access->of_barrier;  // those read the newest
  if (abandoned_) return;
  note_look_over(q);
  AgentState& agent = current();
  const CellKey cell = cell_asked(q);
  const bool adds = q.kind == machine::AccessKind::rmw && !q.result;
  if (shows_parts(cell, adds || q.wanted != nullptr)) return;
  if (stuck_.contains(q.who)) {
    if (ends_by_weak(q, options)) return;
    // Nobody else can step, and what is newest ends the wait: no execution.
    if (q.wanted == nullptr || q.wanted->holds(value_of(*q.cell->newest, cell.size))) {
      ask_blocked();
      settle(q);
      unfair_ = true;
      if (!abandoned_) abandon();
    }
    return;
  }
  std::vector<const Message*> candidates;
  for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
    const std::uint64_t value = value_of(*m, cell.size);
    if ((q.may & bit(*m)) == 0 || (q.wanted != nullptr && !q.wanted->holds(value))) continue;
    const bool writes =
        q.kind == machine::AccessKind::rmw && (q.compare == nullptr || value == *q.compare);
    if (writes && (q.takes & bit(*m)) == 0) continue;
    candidates.push_back(m);
  }

  const Name self{agent.index, agent.nth};
  const std::uint32_t given = find(self, piece_, false);
  const bool counter = sets_.is_counter(cell);
  const bool set = sets_.is_set_or_counter(cell);
  const Message* chosen = nullptr;
  Live live;
  if (given != kNone ? !is_given(given, q) : !is_new(self)) return diverge(q.access->site);
  const std::size_t possible = candidates.size();
  if (given != kNone) {
    live = std::move(lives_[given]);
    if (live.event.stuck) {
      lives_[given] = std::move(live);
      if (ends_by_weak(q, options)) return;
      return sticks(q, given);
    }
    if (live.event.from == kTotal) {
      chosen = candidates.empty() ? nullptr : candidates.front();
    } else if (live.event.from == kSome) {
      chosen = sum_of(q, live.event);
      if (chosen == nullptr && !q.pointed) sets_.turn_off(cell);
    } else {
      for (const Message* m : candidates) {
        if (name_of(*m) == live.event.from) chosen = m;
      }
    }
    const bool overtaken = chosen != nullptr && q.pointed && chosen != q.cell->newest;
    if (chosen == nullptr || (overtaken && !overtaken_by_weak(q, *chosen))) {
      lives_[given] = std::move(live);
      // It reads what it may not write behind, as somebody else has; it may have been the first.
      for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
        const std::uint64_t value = value_of(*m, cell.size);
        const bool writes = q.kind == machine::AccessKind::rmw &&
                            (q.may & ~q.takes & bit(*m)) != 0 &&
                            (q.compare == nullptr || value == *q.compare) &&
                            (q.wanted == nullptr || q.wanted->holds(value));
        if (writes && chosen == nullptr && name_of(*m) == lives_[given].event.from) {
          revisit_as_first(q, Event(lives_[given].event), *m, false);
        }
      }
      return abandon();
    }
  } else {
    live.event.self = self;
    live.event.piece = static_cast<std::uint16_t>(piece_);
    live.event.cell = cell;
    live.event.pointed = q.pointed;
    describe(q, live);
    name_lane(live.event, q);
    if (counter && ((q.wanted == nullptr && possible != 1) || !fits_counter(q, live))) {
      return not_a_counter(cell);
    }
    std::erase_if(candidates, [&](const Message* m) { return has_stand_in(live, *q.cell, *m); });
    chosen = counter && q.wanted != nullptr    ? choose_sum(q, live)
             : candidates.empty() || q.pointed ? q.cell->newest
                                               : last(candidates);
    if (chosen == nullptr) return;
  }
  if (given != kNone) {
    describe(q, live);
    name_lane(live.event, q);
  }
  if (q.kind == machine::AccessKind::rmw) {
    auto now = std::make_shared<Before>();
    for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
      now->of[m->id] = m->before;
      now->there |= bit(*m);
    }
    before_ = std::move(now);
  }
  const Live* const source = writer(*chosen, cell);
  const bool red = q.kind == machine::AccessKind::rmw && !q.result;
  live.red = red;
  const bool looks = q.access->of_barrier && !live.rmw;
  live.operand = looks ? value_of(*chosen, cell.size) : q.operand;
  live.combine = q.access->combine;
  live.past = agent.past;
  // What a look at a barrier is ordered after, the barrier says (on_leave).
  const bool joins = !set || (!red && !q.access->of_barrier);
  if (source != nullptr && joins) live.past.join(source->carried);
  live.past.add(self);
  live.lane = lane_step(q);
  live.instruction = instruction_of(q);
  const bool sum = live.event.from == kSome;
  const bool total = set && (red || (source != nullptr && source->red));
  if (given == kNone && !sum) {
    live.event.from = total ? kTotal : name_of(*chosen);
    if (set && !counter) check_set_read(q, live, possible);
    if (!set || (!red && !total)) offer_reads(q, live.event, candidates, chosen);
    // The newest is what a read at the point of coherence returns now, though another one stands
    // for it: this run is none of those that are explored.
    const bool stands = std::find(candidates.begin(), candidates.end(), chosen) != candidates.end();
    if (q.pointed && !stands && !candidates.empty() && due_.empty()) {
      keep(given, std::move(live));
      return abandon();
    }
  }
  agent.past = live.past;
  if (source != nullptr && joins) {
    lane_of(q).past.join(source->lane_carried);
    lane(current_, q.who).past.join(source->lane_carried);
  }
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i] == chosen) prepared_ = static_cast<std::uint32_t>(i);
  }
  // An await whose condition the newest message does not satisfy may miss: that is answer 0.
  if (q.wanted != nullptr && !q.wanted->holds(value_of(*q.cell->newest, cell.size))) ++prepared_;
  keep(given, std::move(live));
  check_writers(cell, *q.cell);
  ++piece_;
}

// The machine's step of an access that is asked about. A wait takes its step when it ends.
std::uint32_t Walk::steps_before(const Question& q) const {
  return execution_->machine().steps() + (q.wanted != nullptr ? 1 : 0);
}

// What a question tells of a read.
void Walk::describe(const Question& q, Live& live) const {
  live.rmw = q.kind == machine::AccessKind::rmw;
  live.known = q.known;
  live.steps = steps_before(q);
  live.thread = q.who;
  live.access = *q.access;
  live.takes_first = takes_first(q);
  if (live.takes_first || live.event.pointed) live.ahead = agents_[current_].past;
  if (q.wanted == nullptr) return;
  if (sets_.is_counter(live.event.cell)) {
    live.ahead = agents_[current_].past;
    note_known_reds(q, live);
  }
  live.wanted = *q.wanted;
  live.event.waits = true;
  if (q.wanted->condition != nullptr) live.condition = q.wanted->condition->shared_from_this();
}

// Weak writes are no events where races end a run.
bool Walk::is_no_event(const Message& m) const {
  return !weak_events_ && !m.initial && !machine::is_strong(m.order);
}

// The machine tells the race with the newest write, which is no event; else finish() leaves the run
// out by name.
bool Walk::goes_on_by_weak(const Question& q) {
  by_weak_ = LeftOut{current().label, q.access->site, q.cell->newest->site, LeftOut::What::look};
  return true;
}

// A read at the point of coherence returns what is newest, and a write that is no event, and that
// nothing orders with the read, may be executed before it.
bool Walk::overtaken_by_weak(const Question& q, const Message& chosen) {
  for (const Message* m = q.cell->newest; m != &chosen; m = m->older) {
    if (m == nullptr || !is_no_event(*m) || (q.known & bit(*m)) != 0) return false;
  }
  return goes_on_by_weak(q);
}

// A poll that is stuck in the graph is found by later writes, but not by one that is no event:
// nothing else looks at the two.
bool Walk::ends_by_weak(const Question& q, std::span<Message* const> options) {
  const Message& newest = *q.cell->newest;
  if (!is_no_event(newest) || options.empty() || options.front() != &newest) return false;
  prepared_ = 0;
  return goes_on_by_weak(q);
}

// A poll of the graph that is stuck fails. What it waits for is known now, for revisits.
void Walk::sticks(const Question& q, std::uint32_t given) {
  AgentState& agent = current();
  Live live = std::move(lives_[given]);
  describe(q, live);
  const bool late = live.event.late;
  const bool ended =
      q.wanted == nullptr || q.wanted->holds(value_of(*q.cell->newest, live.event.cell.size));
  bool useless = q.wanted == nullptr;
  for (const Message* m = q.cell->newest; m != nullptr && ended; m = m->older) {
    if (name_of(*m) != live.event.from) continue;
    useless = useless || q.wanted->holds(value_of(*m, live.event.cell.size));
  }
  lives_[given] = live;
  if (ended) {
    if (late) {
      ask_blocked();
      settle(q);
    }
    if (!late && !useless && !abandoned_) {
      Graph g = graph();
      g[given].late = true;
      follow(std::move(g));
    }
    unfair_ = true;
    if (!abandoned_) abandon();
    return;
  }
  agent.stuck = true;
  stuck_.insert(q.who);
  agent.past.add(live.event.self);
  live.past = agent.past;
  name_lane(live.event, q);
  live.lane = lane_step(q);
  keep(given, std::move(live));
  ++piece_;
}

// At the point of coherence a read returns what is newest when it runs: nothing that what it
// depends on has overwritten.
bool Walk::is_overwritten(const Question& q, const Message& m) {
  const Prefix& past = current().past;
  for (const Message* x = q.cell->newest; x != nullptr && q.pointed; x = x->older) {
    if ((x->before & bit(m)) == 0) continue;
    const Live* const w = writer(*x, cell_asked(q));
    if (w != nullptr) {
      left_out(current().index, q.access->site, past, lane_of(q).past, *w, q.wanted != nullptr);
    }
    if (name_of(*x) == kUnknown || past.has(name_of(*x))) return true;
  }
  return false;
}

// The graphs in which this read returns something else.
void Walk::offer_reads(const Question& q, const Event& event,
                       const std::vector<const Message*>& candidates, const Message* chosen) {
  const auto offer = [&](const Name& from, bool stuck) {
    Graph g = graph();
    g.push_back(event);
    g.back().from = from;
    g.back().stuck = stuck;
    follow(std::move(g));
  };
  for (const Message* m : candidates) {
    if (m != chosen && !is_overwritten(q, *m)) offer(name_of(*m), false);
  }
  if (q.wanted != nullptr) {
    MessageSet before = 0;
    for (const Message* m = q.cell->newest; m != nullptr; m = m->older) before |= m->before;
    for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
      if ((before & bit(*m)) != 0) continue;
      if (!q.wanted->holds(value_of(*m, q.size))) offer(name_of(*m), true);
    }
  }
  if (q.kind == machine::AccessKind::rmw) revisit_taken(q, event);
}

// -- writes ---------------------------------------------------------------------------------------

void Walk::on_place(const Question& q, std::span<const MessageSet> options) {
  prepared_ = 0;
  asked_ = true;
  if (abandoned_) return;
  const Name self{current().index, current().nth};
  const CellKey cell = cell_asked(q);
  const std::uint32_t piece = q.kind == machine::AccessKind::rmw ? piece_ - 1 : piece_;
  const std::uint32_t given = find(self, piece, true);
  if (given != kNone && !is_given(given, q)) return diverge(q.access->site);
  if (given != kNone && !lives_[given].event.open) {
    MessageSet offered = 0, behind = 0;
    for (const MessageSet o : options) offered |= o;
    for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
      const std::uint32_t other = find_write(name_of(*m), cell);
      if (other == kNone) continue;
      if (other < given) {
        if (overtakes(lives_[given].event, lives_[other].event)) behind |= bit(*m);
      } else if (!overtakes(lives_[other].event, lives_[given].event)) {
        behind |= bit(*m);
      }
    }
    behind &= offered;
    if (q.pointed && behind != 0) return abandon();
    const auto at = std::find(options.begin(), options.end(), behind);
    if (at == options.end()) return abandon();
    prepared_ = static_cast<std::uint32_t>(at - options.begin());
    return;
  }
  if (options.size() < 2) return;
  if (sets_.is_counter(cell) && q.kind != machine::AccessKind::rmw) return not_a_counter(cell);
  if (sets_.is_set(cell)) {
    // Unordered with a reduction: then its order matters.
    for (const std::uint32_t i : events_at(cell)) {
      if (lives_[i].executed && lives_[i].red) return not_a_set(cell);
    }
  }
  Event event;
  event.self = self;
  event.piece = static_cast<std::uint16_t>(piece);
  event.write = true;
  event.pointed = q.pointed;
  event.cell = cell;
  name_lane_of_write(event, q);
  for (std::size_t k = 1; k < options.size(); ++k) {
    event.after.clear();
    bool possible = true;
    for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
      if ((options[k] & bit(*m)) == 0) continue;
      event.after.push_back(name_of(*m));
      // Order of execution is coherence order there: not before what this write depends on.
      if (q.pointed && (name_of(*m) == kUnknown || current().past.has(name_of(*m)))) {
        possible = false;
        const Live* const w = writer(*m, cell);
        if (w != nullptr &&
            left_out(current().index, q.access->site, current().past, lane_of(q).past, *w))
          return;
      }
    }
    if (!possible) continue;
    Graph g = graph();
    if (given != kNone) {
      g[given] = event;
    } else {
      g.push_back(event);
    }
    follow(std::move(g));
  }
}

void Walk::on_message(const Question& q, const Message& m) {
  if (abandoned_) return;
  AgentState& agent = current();
  const Name self{agent.index, agent.nth};
  const CellKey cell = cell_asked(q);
  if (step_names_.size() <= m.step) step_names_.resize(m.step + 1, kUnknown);
  step_names_[m.step] = self;
  const bool rmw = q.kind == machine::AccessKind::rmw;
  if (shows_parts(cell, rmw)) return;
  const std::uint32_t piece = rmw ? piece_ - 1 : piece_++;
  const std::uint32_t given = find(self, piece, true);
  Live live;
  if (given != kNone ? !is_given(given, q) : !is_new(self)) return diverge(q.access->site);
  if (given != kNone) {
    lives_[given].thread = q.who;
    lives_[given].access = *q.access;
    const std::uint32_t own = rmw ? find(self, piece, false) : kNone;
    const bool of_set = own != kNone && lives_[own].event.from == kTotal;
    if (!of_set && !lives_[given].event.open && !lands_as_given(given, m, *q.cell)) {
      return abandon();
    }
    live = std::move(lives_[given]);
    live.event.open = false;
    // Of what is there, the machine knows best: an atomic lands behind what it read.
    std::erase_if(live.event.after, [&](const Name& n) {
      const std::uint32_t x = find_write(n, cell);
      return x == kNone || lives_[x].executed;
    });
    if (of_set) live.event.after.clear();
    for (const Message* x = q.cell->newest; x != nullptr; x = x->older) {
      const std::uint32_t other = find_write(name_of(*x), cell);
      if ((x->before & bit(m)) != 0 && other < given) live.event.after.push_back(name_of(*x));
    }
  } else {
    live.event.self = self;
    live.event.piece = static_cast<std::uint16_t>(piece);
    live.event.write = true;
    live.event.pointed = q.pointed;
    live.event.cell = cell;
    for (const Message* x = q.cell->newest; x != nullptr; x = x->older) {
      if ((x->before & bit(m)) != 0) live.event.after.push_back(name_of(*x));
    }
    // What of the graph is still to come at the point of coherence comes later in coherence too.
    for (const std::uint32_t i : events_before(cell, remaining_ > 0 ? given_ : 0)) {
      const Live& x = lives_[i];
      if (!x.executed && x.event.write && (x.event.pointed || q.pointed)) {
        live.event.after.push_back(x.event.self);
      }
    }
  }
  const std::uint32_t read = rmw ? find(self, piece, false) : kNone;
  agent.past.add(self);
  live.rmw = rmw;
  live.red = read != kNone && lives_[read].red;
  live.thread = q.who;
  live.access = *q.access;
  live.past = live.carried = agent.past;
  name_lane_of_write(live.event, q);
  live.lane = read != kNone ? lives_[read].lane : lane_step(q);
  live.lane_carried = lane_of(q).past;
  live.instruction = instruction_of(q);
  Incoming w{self,     cell, live.past, live.lane_carried,       value_of(m, cell.size),
             live.red, 0,    {},        rmw ? before_ : nullptr, q.access->site};
  if (live.red) {
    live.operand = lives_[read].operand;
    const Live* const source = m.source != nullptr ? writer(*m.source, cell) : nullptr;
    if (source != nullptr && sets_.is_set_or_counter(cell)) {
      live.carried.join(source->carried);
      live.lane_carried.join(source->lane_carried);
    }
  }
  const std::uint32_t at = keep(given, std::move(live));
  writes_[key_of(m, cell)] = at;
  check_writers(cell, *q.cell);
  note_write_under(q, m);
  if (given != kNone) return;
  w.limit = lives_.size();
  w.own.push_back(lives_[at].event);
  w.own.back().open = true;
  if (!rmw) w.own.back().after.clear();
  due_.push_back(std::move(w));
}

// Of a set nobody asks for what is not the newest.
void Walk::on_forgotten(const machine::Cell& cell, const Message& m) {
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    const Name name = name_of(*x);
    if (x->initial || name == kUnknown) continue;
    for (std::uint32_t piece = 0; find(name, piece, true) != kNone; ++piece) {
      const Live& l = lives_[find(name, piece, true)];
      if (l.event.cell.size == cell.size && l.red && sets_.is_set(l.event.cell)) return;
    }
  }
  const std::uint16_t site = execution_->record(current_).access.site;
  sets_.leave_out({current().label, site, m.initial ? site : m.site, LeftOut::What::forgotten});
}

// Causality may have put a write elsewhere than the graph does: then the graph is not consistent.
bool Walk::lands_as_given(std::uint32_t event, const Message& m, const machine::Cell& cell) const {
  const Live& mine = lives_[event];
  for (const Message* x = cell.newest; x != nullptr; x = x->older) {
    const std::uint32_t at = find_write(name_of(*x), mine.event.cell);
    if (x == &m || at == kNone || !lives_[at].executed) continue;
    const Live& other = lives_[at];
    if (!execution_->machine().morally_strong(mine.thread, mine.access, other.thread,
                                              other.access)) {
      continue;
    }
    const bool behind =
        at < event ? overtakes(mine.event, other.event) : !overtakes(other.event, mine.event);
    if (behind != ((x->before & bit(m)) != 0)) return false;
  }
  return true;
}

// -- load buffering -------------------------------------------------------------------------------

std::optional<std::uint64_t> Walk::foreseen(std::uint64_t label, machine::Address cell,
                                            std::uint8_t size) const {
  const Foreseen* f = check::find(*foresight_, {label, record_->count(label)},
                                  CellKey{cell.region, cell.offset, size});
  return f == nullptr ? std::nullopt : std::optional(f->value);
}

// A read that returns what was foreseen is an event that nothing can change; the machine only tells
// of it. If it is a read-modify-write's, the write follows as a piece of its own (on_message).
void Walk::on_event(const machine::Event& e) {
  if (e.foreseen && !abandoned_) {
    AgentState& agent = current();
    const Name self{agent.index, agent.nth};
    const std::uint32_t given = find(self, piece_, false);
    Live live;
    if (given != kNone) {
      live = std::move(lives_[given]);
    } else {
      live.event.self = self;
      live.event.piece = static_cast<std::uint16_t>(piece_);
      live.event.cell = {e.address.region, e.address.offset, static_cast<std::uint8_t>(e.bytes)};
      live.event.from = kLater;
    }
    agent.past.add(self);
    live.past = agent.past;
    live.thread = e.thread;
    keep(given, std::move(live));
    ++piece_;
  }
  if (record_ != nullptr) record_->on_event(e);
}

}  // namespace ringfence::check

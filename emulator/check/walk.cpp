#include "emulator/check/walk.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ringfence::check {

using machine::bit;
using machine::Message;
using machine::MessageSet;
using schedule::AgentId;
using schedule::kNoAgent;
using schedule::Pending;

namespace {

std::uint64_t key(const Name& self, std::uint32_t piece, bool write) {
  return std::uint64_t{self.agent} << 40 | std::uint64_t{self.nth} << 12 | piece << 1 |
         (write ? 1 : 0);
}

std::uint64_t key(std::uint32_t step, std::uint64_t offset) {
  return std::uint64_t{step} << 32 | (offset & 0xffffffff);
}

CellKey key_of(const machine::Arbiter::Question& q) { return {q.at.region, q.at.offset, q.size}; }

}  // namespace

std::uint64_t value_of(const Message& m, std::uint8_t size) {
  std::uint64_t v = 0;
  std::memcpy(&v, m.value.data(), std::min<std::size_t>(size, 8));
  return v;
}

std::uint32_t Agents::index(std::uint64_t label) {
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = index_.emplace(label, static_cast<std::uint32_t>(labels_.size()));
  if (fresh) labels_.push_back(label);
  return at->second;
}

std::uint64_t Agents::label(std::uint32_t index) const {
  const std::lock_guard lock(mutex_);
  return labels_.at(index);
}

std::vector<std::uint64_t> Agents::labels() const {
  const std::lock_guard lock(mutex_);
  return labels_;
}

bool Sets::all_off() const {
  const std::lock_guard lock(mutex_);
  return !on_;
}

std::vector<CellKey> Sets::off() const {
  const std::lock_guard lock(mutex_);
  return {ordered_.begin(), ordered_.end()};
}

bool Sets::is_set(const CellKey& cell) const {
  const std::lock_guard lock(mutex_);
  return on_ && !ordered_.contains(cell);
}

void Sets::turn_off(const CellKey& cell) {
  const std::lock_guard lock(mutex_);
  if (on_ && ordered_.insert(cell).second) ++generation_;
}

void Sets::turn_all_off() {
  const std::lock_guard lock(mutex_);
  if (on_) ++generation_;
  on_ = false;
}

std::uint32_t Sets::generation() const {
  const std::lock_guard lock(mutex_);
  return generation_;
}

// -- the run --------------------------------------------------------------------------------------

void Walk::start(Graph graph, schedule::Execution& execution) {
  execution_ = &execution;
  agents_.clear();
  id_of_.clear();
  lives_.clear();
  index_.clear();
  step_names_.clear();
  writes_.clear();
  due_.clear();
  arrivals_.clear();
  found_.clear();
  current_ = asking_blocked_ = kNoAgent;
  piece_ = prepared_ = 0;
  abandoned_ = unfair_ = false;
  given_ = remaining_ = graph.size();
  for (Event& e : graph) {
    Live live;
    live.event = std::move(e);
    add(std::move(live));
  }
  relate();
}

std::uint32_t Walk::add(Live live) {
  const auto at = static_cast<std::uint32_t>(lives_.size());
  index_.emplace(key(live.event.self, live.event.piece, live.event.write), at);
  lives_.push_back(std::move(live));
  return at;
}

std::uint32_t Walk::find(const Name& self, std::uint32_t piece, bool write) const {
  const auto at = index_.find(key(self, piece, write));
  return at == index_.end() ? kNone : at->second;
}

std::uint32_t Walk::find_write(const Name& self, const CellKey& cell) const {
  if (self.agent == kInitial.agent) return kNone;
  for (std::uint32_t piece = 0;; ++piece) {
    const std::uint32_t at = find(self, piece, true);
    if (at != kNone && lives_[at].event.cell == cell) return at;
    if (at == kNone && find(self, piece, false) == kNone) return kNone;
  }
}

Name Walk::name_of(const Message& m) const {
  if (m.initial) return kInitial;
  return m.step < step_names_.size() ? step_names_[m.step] : kUnknown;
}

const Walk::Live* Walk::writer(const Message& m, const CellKey& cell) const {
  const auto at = writes_.find(key(m.step, cell.offset));
  return m.initial || at == writes_.end() ? nullptr : &lives_[at->second];
}

Graph Walk::graph() const {
  Graph g;
  g.reserve(lives_.size() + 1);
  for (const Live& l : lives_) g.push_back(l.event);
  return g;
}

void Walk::abandon() {
  abandoned_ = true;
  prepared_ = 0;
  execution_->finish(schedule::RunEnd::stopped);
}

void Walk::executed(std::uint32_t event) {
  Live& l = lives_[event];
  if (!l.executed && event < given_) --remaining_;
  l.executed = true;
}

// What must be executed before an event of the given graph, besides what it reads: at the point of
// coherence, and for fence.sc, all that coherence puts before it, and what reads those.
void Walk::relate() {
  waits_for_.assign(given_, {});
  const auto n = static_cast<std::uint32_t>(given_);
  for (std::uint32_t j = 0; j < n; ++j) {
    const Event& b = lives_[j].event;
    const bool fence = b.cell == kFences;
    for (std::uint32_t i = 0; i < j; ++i) {
      const Event& a = lives_[i].event;
      if (a.cell != b.cell || a.self == b.self) continue;
      if (!fence && !a.pointed && !b.pointed) continue;
      if (a.write && b.write) {
        if (overtakes(b, a)) {
          waits_for_[i].push_back(j);
        } else {
          waits_for_[j].push_back(i);
        }
      }
    }
  }
  // From-reads: a read at the point of coherence precedes what overwrites the one that it returns.
  for (std::uint32_t r = 0; r < n; ++r) {
    const Event& read = lives_[r].event;
    if (read.write || !read.pointed || read.stuck || read.from == kTotal) continue;
    const std::uint32_t source = find_write(read.from, read.cell);
    for (std::uint32_t w = 0; w < n; ++w) {
      const Event& write = lives_[w].event;
      if (!write.write || write.cell != read.cell || write.self == read.self || w == source) {
        continue;
      }
      if (source == kNone && read.from != kInitial) continue;
      const bool later = source == kNone ? true
                         : source < w    ? !overtakes(write, lives_[source].event)
                                         : overtakes(lives_[source].event, write);
      if (later) waits_for_[w].push_back(r);
    }
  }
}

void Walk::on_spawn(AgentId id, std::uint64_t label) {
  if (agents_.size() <= id) agents_.resize(id + 1);
  AgentState& a = agents_[id];
  a.id = id;
  a.label = label;
  a.index = names_of_.index(label);
  if (id_of_.size() <= a.index) id_of_.resize(a.index + 1, kNoAgent);
  id_of_[a.index] = id;
  if (current_ != kNoAgent) a.past = agents_[current_].past;
}

void Walk::on_arrive(AgentId id, const void* barrier) {
  arrivals_[barrier].join(agents_[id].past);
  if (record_ != nullptr) record_->on_arrive(execution_->record(id).thread);
}

std::optional<std::uint64_t> Walk::foreseen(std::uint64_t label, machine::Address cell,
                                            std::uint8_t size) const {
  const Foreseen* f = check::find(*foresight_, {label, record_->count(label)},
                                  CellKey{cell.region, cell.offset, size});
  return f == nullptr ? std::nullopt : std::optional(f->value);
}

// Whether what the agent stands before is an event of the graph.
bool Walk::is_event(AgentId id) const {
  const Pending pending = execution_->record(id).pending;
  if (pending == Pending::fence_sc) return orders_fence_sc();
  if (pending != Pending::access) return false;
  if (!foresees()) return true;
  const AgentState& a = agents_[id];
  const Foreseen* f = check::find(*foresight_, {a.label, record_->count(a.label)}, std::nullopt);
  if (f == nullptr) return true;
  // A foreseen read-modify-write is a write that waits for nothing, but not one to add to a graph
  // that is being repeated.
  return f->writes && find({a.index, a.nth}, 0, true) == kNone;
}

void Walk::on_barrier(std::span<const AgentId> met, const void* barrier) {
  Prefix all;
  if (const auto at = arrivals_.find(barrier); at != arrivals_.end()) {
    all = std::move(at->second);
    arrivals_.erase(at);
  }
  for (const AgentId id : met) all.join(agents_[id].past);
  for (const AgentId id : met) agents_[id].past = all;
}

void Walk::on_order(AgentId earlier, AgentId later) {
  agents_[later].past.join(agents_[earlier].past);
}

void Walk::on_end(AgentId id, AgentId parent) {
  if (parent != kNoAgent) agents_[parent].past.join(agents_[id].past);
}

void Walk::leave_step() {
  if (current_ != kNoAgent && piece_ > 0) ++agents_[current_].nth;
  piece_ = 0;
}

// Whether `event` still has to wait for `other`, one of those that it waits for.
bool Walk::waits(std::uint32_t event, std::uint32_t other) const {
  const Event& mine = lives_[event].event;
  const Event& its = lives_[other].event;
  if (lives_[other].executed || its.self == mine.self) return false;
  if (mine.cell != kFences) return true;
  // Fences that are not morally strong are not ordered.
  const auto place = [&](const Event& e) -> const machine::Placement* {
    const AgentId id = e.self.agent < id_of_.size() ? id_of_[e.self.agent] : kNoAgent;
    return id == kNoAgent ? nullptr
                          : &execution_->machine().placement(execution_->record(id).thread);
  };
  const machine::Placement *x = place(mine), *y = place(its);
  if (x == nullptr || y == nullptr || mine.self.agent == its.self.agent) return true;
  return machine::reaches(mine.scope, *x, *y) && machine::reaches(its.scope, *y, *x);
}

bool Walk::source_is_there(std::uint32_t event) const {
  const Event& e = lives_[event].event;
  if (e.write || e.from.agent == kInitial.agent) return true;
  const std::uint32_t source = find_write(e.from, e.cell);
  return source == kNone || lives_[source].executed;
}

AgentId Walk::pick(const schedule::ReadyView& ready, AgentId, bool, std::uint64_t, std::uint32_t) {
  leave_step();
  if (remaining_ == 0 && !due_.empty()) {
    const std::vector<Incoming> due = std::move(due_);
    due_.clear();
    for (const Incoming& w : due) revisit(w);
  }
  AgentId next = kNoAgent;
  if (!abandoned_) next = remaining_ > 0 ? repeat(ready) : extend(ready);
  if (next == kNoAgent) {
    if (!abandoned_) abandon();
    next = ready.at(0);
  }
  current_ = next;
  return next;
}

// The next step along the given graph.
AgentId Walk::repeat(const schedule::ReadyView& ready) {
  AgentId best = kNoAgent;
  std::uint32_t stamp = kNone;
  for (bool again = true; again;) {
    again = false;
    for (std::uint32_t i = 0; i < ready.count(); ++i) {
      const AgentId id = ready.at(i);
      AgentState& a = agents_[id];
      if (a.stuck) continue;
      if (!is_event(id)) return id;
      const Name self{a.index, a.nth};
      std::uint32_t first = kNone;
      bool can = true;
      for (std::uint32_t piece = 0; can; ++piece) {
        const std::uint32_t read = find(self, piece, false), write = find(self, piece, true);
        if (read == kNone && write == kNone) break;
        for (const std::uint32_t at : {read, write}) {
          if (at == kNone || at >= given_) continue;
          first = std::min(first, at);
          for (const std::uint32_t other : waits_for_[at]) {
            can = can && !waits(at, other);
          }
          can = can && source_is_there(at);
        }
      }
      if (first == kNone || !can) continue;
      if (lives_[first].event.stuck) {
        a.stuck = again = true;
        executed(first);
        continue;
      }
      if (first < stamp) {
        stamp = first;
        best = id;
      }
    }
  }
  if (best == kNoAgent && remaining_ == 0) return extend(ready);
  return best;
}

// A step beyond it: the agent of the lowest label. Polls that are stuck come last, to fail.
AgentId Walk::extend(const schedule::ReadyView& ready) {
  AgentId best = kNoAgent, stuck = kNoAgent;
  for (std::uint32_t i = 0; i < ready.count(); ++i) {
    const AgentId id = ready.at(i);
    AgentId& slot = agents_[id].stuck ? stuck : best;
    if (slot == kNoAgent || agents_[id].label < agents_[slot].label) slot = id;
  }
  return best != kNoAgent ? best : stuck;
}

std::uint32_t Walk::choose(schedule::DecisionKind kind, std::uint64_t, std::uint32_t,
                           std::uint32_t options) {
  if (kind == schedule::DecisionKind::sum) {
    // No event of the graph: nobody but the sum's value can tell.
    sum_orders_ = std::max(sum_orders_, options);
    return sum_order_ % options;
  }
  if (prepared_ >= options) return 0;
  return prepared_;
}

// -- reads ----------------------------------------------------------------------------------------

// The last in coherence order; of several (racing writes are unordered) the one of the last name.
const Message* Walk::last(const std::vector<const Message*>& among, const Before* given) const {
  MessageSet before = 0;
  for (const Message* m : among) before |= given != nullptr ? (*given)[m->id] : m->before;
  const Message* best = nullptr;
  for (const Message* m : among) {
    if ((before & bit(*m)) != 0) continue;
    if (best == nullptr || name_of(*best) == kInitial ||
        (name_of(*m) != kInitial && name_of(*best) < name_of(*m))) {
      best = m;
    }
  }
  return best;
}

void Walk::on_read(const Question& q, std::span<Message* const> options) {
  prepared_ = 0;
  if (abandoned_) return;
  AgentState& agent = current();
  const CellKey cell = key_of(q);
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
  const bool set = sets_.is_set(cell);
  const Message* chosen = nullptr;
  Live live;
  if (given != kNone) {
    live = std::move(lives_[given]);
    if (live.event.stuck) {
      // The poll fails; valid if what it sees is the last one, and does not satisfy it.
      bool newest = false;
      for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
        if (name_of(*m) != live.event.from || q.wanted == nullptr) continue;
        newest = !q.wanted->holds(value_of(*m, cell.size));
        for (const Message* x = q.cell->newest; x != nullptr; x = x->older) {
          newest = newest && (x->before & bit(*m)) == 0;
        }
      }
      lives_[given] = std::move(live);
      if (!newest) {
        unfair_ = true;
        abandon();
      }
      return;
    }
    if (live.event.from == kTotal) {
      chosen = candidates.empty() ? nullptr : candidates.front();
    } else {
      for (const Message* m : candidates) {
        if (name_of(*m) == live.event.from) chosen = m;
      }
    }
    if (chosen == nullptr || (q.pointed && chosen != q.cell->newest)) {
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
    chosen = candidates.empty() || q.pointed ? q.cell->newest : last(candidates);
  }
  if (q.kind == machine::AccessKind::rmw) {
    auto before = std::make_shared<Before>();
    for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
      (*before)[m->id] = m->before;
    }
    before_ = std::move(before);
  }
  const Live* const source = writer(*chosen, cell);
  const bool red = q.kind == machine::AccessKind::rmw && !q.result;
  live.rmw = q.kind == machine::AccessKind::rmw;
  live.red = red;
  live.known = q.known;
  live.thread = q.who;
  live.operand = q.operand;
  if (q.wanted != nullptr) live.wanted = *q.wanted;
  live.past = agent.past;
  if (source != nullptr && !(set && red)) live.past.join(source->carried);
  live.past.add(self);
  const bool total = set && (red || (source != nullptr && source->red));
  if (given == kNone) {
    live.event.from = total ? kTotal : name_of(*chosen);
    if (set) check_set_read(q, live, candidates.size());
    if (!set || (!red && !total)) offer_reads(q, live.event, candidates, chosen);
  }
  agent.past = live.past;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i] == chosen) prepared_ = static_cast<std::uint32_t>(i);
  }
  // An await whose condition the newest message does not satisfy may miss: that is answer 0.
  if (q.wanted != nullptr && !q.wanted->holds(value_of(*q.cell->newest, cell.size))) ++prepared_;
  if (given != kNone) {
    lives_[given] = std::move(live);
    executed(given);
  } else {
    live.executed = true;
    add(std::move(live));
  }
  ++piece_;
}

// The graphs in which this read returns something else.
void Walk::offer_reads(const Question& q, const Event& event,
                       const std::vector<const Message*>& candidates, const Message* chosen) {
  const auto offer = [&](const Name& from, bool stuck) {
    Graph g = graph();
    g.push_back(event);
    g.back().from = from;
    g.back().stuck = stuck;
    found_.push_back(std::move(g));
  };
  // At the point of coherence a read returns what is newest when it runs: nothing that what it
  // depends on has overwritten.
  const auto overwritten = [&](const Message& m) {
    for (const Message* x = q.cell->newest; x != nullptr && q.pointed; x = x->older) {
      if ((x->before & bit(m)) == 0) continue;
      if (name_of(*x) == kUnknown || current().past.has(name_of(*x))) return true;
    }
    return false;
  };
  for (const Message* m : candidates) {
    if (m != chosen && name_of(*m) != kUnknown && !overwritten(*m)) offer(name_of(*m), false);
  }
  if (q.wanted != nullptr) {
    MessageSet before = 0;
    for (const Message* m = q.cell->newest; m != nullptr; m = m->older) before |= m->before;
    for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
      if ((before & bit(*m)) != 0 || name_of(*m) == kUnknown) continue;
      if (!q.wanted->holds(value_of(*m, q.size))) offer(name_of(*m), true);
    }
  }
  if (q.kind == machine::AccessKind::rmw) revisit_taken(q, event);
}

// -- writes ---------------------------------------------------------------------------------------

void Walk::on_place(const Question& q, std::span<const MessageSet> options) {
  prepared_ = 0;
  if (abandoned_) return;
  const Name self{current().index, current().nth};
  const CellKey cell = key_of(q);
  const std::uint32_t piece = q.kind == machine::AccessKind::rmw ? piece_ - 1 : piece_;
  const std::uint32_t given = find(self, piece, true);
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
  if (sets_.is_set(cell)) {
    // Unordered with a reduction: then its order matters.
    for (const Live& l : lives_) {
      if (l.executed && l.red && l.event.cell == cell) return not_a_set(cell);
    }
  }
  Event event;
  event.self = self;
  event.piece = static_cast<std::uint16_t>(piece);
  event.write = true;
  event.pointed = q.pointed;
  event.cell = cell;
  for (std::size_t k = 1; k < options.size(); ++k) {
    event.after.clear();
    bool possible = true;
    for (const Message* m = q.cell->newest; m != nullptr; m = m->older) {
      if ((options[k] & bit(*m)) == 0) continue;
      event.after.push_back(name_of(*m));
      // Order of execution is coherence order there: not before what this write depends on.
      if (q.pointed && (name_of(*m) == kUnknown || current().past.has(name_of(*m)))) {
        possible = false;
      }
    }
    if (!possible) continue;
    Graph g = graph();
    if (given != kNone) {
      g[given] = event;
    } else {
      g.push_back(event);
    }
    found_.push_back(std::move(g));
  }
}

void Walk::on_message(const Question& q, const Message& m) {
  if (abandoned_) return;
  AgentState& agent = current();
  const Name self{agent.index, agent.nth};
  const CellKey cell = key_of(q);
  if (step_names_.size() <= m.step) step_names_.resize(m.step + 1, kUnknown);
  step_names_[m.step] = self;
  const bool rmw = q.kind == machine::AccessKind::rmw;
  const std::uint32_t piece = rmw ? piece_ - 1 : piece_++;
  const std::uint32_t given = find(self, piece, true);
  Live live;
  if (given != kNone) {
    lives_[given].thread = q.who;
    lives_[given].access = *q.access;
    if (!lives_[given].event.open && !lands_as_given(given, m, *q.cell)) return abandon();
    live = std::move(lives_[given]);
    live.event.open = false;
    // Of what is there, the machine knows best: an atomic lands behind what it read.
    std::erase_if(live.event.after, [&](const Name& n) {
      const std::uint32_t x = find_write(n, cell);
      return x == kNone || lives_[x].executed;
    });
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
    for (std::uint32_t i = 0; i < given_ && remaining_ > 0; ++i) {
      const Live& x = lives_[i];
      if (!x.executed && x.event.write && x.event.cell == cell && (x.event.pointed || q.pointed)) {
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
  if (live.red) {
    live.operand = lives_[read].operand;
    const Live* const source = m.source != nullptr ? writer(*m.source, cell) : nullptr;
    if (source != nullptr && sets_.is_set(cell)) live.carried.join(source->carried);
  }
  Incoming w{self,     cell, live.past, value_of(m, cell.size),
             live.red, 0,    {},        rmw ? before_ : nullptr};
  std::uint32_t at = given;
  if (given != kNone) {
    lives_[given] = std::move(live);
    executed(given);
  } else {
    live.executed = true;
    at = add(std::move(live));
  }
  writes_[key(m.step, cell.offset)] = at;
  if (given != kNone) return;
  w.limit = lives_.size();
  w.own.push_back(lives_[at].event);
  w.own.back().open = true;
  if (!rmw) w.own.back().after.clear();
  due_.push_back(std::move(w));
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

bool Walk::strong_fences(const Live& a, const Live& b) const {
  if (a.event.self.agent == b.event.self.agent) return true;
  const auto& machine = execution_->machine();
  const auto& x = machine.placement(a.thread);
  const auto& y = machine.placement(b.thread);
  return machine::reaches(a.access.scope, x, y) && machine::reaches(b.access.scope, y, x);
}

void Walk::on_fence_sc(machine::ThreadId who, machine::Scope scope) {
  if (abandoned_) return;
  AgentState& agent = current();
  const Name self{agent.index, agent.nth};
  const std::uint32_t given = find(self, piece_, true);
  Live live;
  if (given != kNone) {
    live = std::move(lives_[given]);
  } else {
    live.event.self = self;
    live.event.piece = static_cast<std::uint16_t>(piece_);
    live.event.write = true;
    live.event.cell = kFences;
    live.event.scope = scope;
  }
  agent.past.add(self);
  live.past = live.carried = agent.past;
  live.thread = who;
  live.access.scope = scope;
  if (given == kNone) {
    // Any set of earlier fences that is closed upwards may come after this one.
    std::vector<std::uint32_t> others;
    for (std::uint32_t i = 0; i < lives_.size(); ++i) {
      const Live& x = lives_[i];
      if (x.event.cell == kFences && !live.past.has(x.event.self) && strong_fences(live, x)) {
        others.push_back(i);
      }
    }
    const std::size_t n = std::min<std::size_t>(others.size(), 12);
    for (std::uint32_t set = 1; set < (1u << n); ++set) {
      bool closed = true;
      for (std::size_t a = 0; a < n; ++a) {
        for (std::size_t b = 0; b < n; ++b) {
          if ((set >> a & 1) == 0 || (set >> b & 1) != 0 || a == b) continue;
          const Live& x = lives_[others[a]];
          const Live& y = lives_[others[b]];
          if (!strong_fences(x, y)) continue;
          const bool x_first = a < b ? !overtakes(y.event, x.event) : overtakes(x.event, y.event);
          closed = closed && !x_first;
        }
      }
      if (!closed) continue;
      Graph g = graph();
      g.push_back(live.event);
      for (std::size_t a = 0; a < n; ++a) {
        if ((set >> a & 1) != 0) g.back().after.push_back(lives_[others[a]].event.self);
      }
      found_.push_back(std::move(g));
    }
    live.executed = true;
    add(std::move(live));
  } else {
    lives_[given] = std::move(live);
    executed(given);
  }
  ++piece_;
}

}  // namespace ringfence::check

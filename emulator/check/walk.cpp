#include "emulator/check/walk.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "emulator/schedule/interrupt.hpp"

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

std::uint32_t Agents::lane(std::uint32_t agent, std::uint32_t lane) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t key = std::uint64_t{agent} << 32 | lane;
  return lane_.emplace(key, static_cast<std::uint32_t>(lane_.size())).first->second;
}

std::uint64_t Agents::label(std::uint32_t index) const {
  const std::lock_guard lock(mutex_);
  return labels_.at(index);
}

std::vector<std::uint64_t> Agents::labels() const {
  const std::lock_guard lock(mutex_);
  return labels_;
}

bool Sets::all_off() const { return !on_; }

std::vector<CellKey> Sets::off() const { return {ordered_.begin(), ordered_.end()}; }

bool Sets::has(const CellKey& key) const { return ordered_.contains(key); }

void Sets::adopt(const Sets& of_run) {
  on_ = of_run.on_;
  generation_ = of_run.generation_;
  ordered_ = of_run.ordered_;
  left_out_.insert(of_run.left_out_.begin(), of_run.left_out_.end());
}

void Sets::note(const CellKey& key) {
  if (ordered_.insert(key).second) ++generation_;
}

void Sets::turn_off(const CellKey& cell) {
  const bool lanes = cell.region == kLanes.region;
  if ((on_ || lanes) && ordered_.insert(cell).second) ++generation_;
}

void Sets::turn_all_off() {
  if (on_) ++generation_;
  on_ = false;
}

std::uint32_t Sets::generation() const { return generation_; }

// -- the run --------------------------------------------------------------------------------------

void Walk::start(Graph graph, schedule::Execution& execution) {
  execution_ = &execution;
  agents_.clear();
  id_of_.clear();
  lives_.clear();
  index_.clear();
  by_cell_.clear();
  step_names_.clear();
  writes_.clear();
  due_.clear();
  arrivals_.clear();
  lane_arrivals_.clear();
  fenced_arrivals_.clear();
  lanes_.clear();
  others_ = 0;
  lane_of_.clear();
  part_of_.clear();
  stuck_.clear();
  lanes_of_.clear();
  parts_.clear();
  given_last_.clear();
  found_.clear();
  ends_.clear();
  sooner_.clear();
  current_ = asking_blocked_ = kNoAgent;
  piece_ = prepared_ = 0;
  yields_ = executions_ = 0;
  abandoned_ = unfair_ = in_vain_ = overlaps_ = fences_asked_ = fenced_ = false;
  by_weak_.reset();
  generation_ = sets_.generation();
  handed_on_ = sets_.handed_on();
  given_ = remaining_ = graph.size();
  for (Event& e : graph) {
    Live live;
    live.event = std::move(e);
    const Name& self = live.event.self;
    if (given_last_.size() <= self.agent) given_last_.resize(self.agent + 1);
    given_last_[self.agent] = std::max(given_last_[self.agent], self.nth);
    add(std::move(live));
  }
  relate();
}

std::uint32_t Walk::add(Live live) {
  const auto at = static_cast<std::uint32_t>(lives_.size());
  index_.emplace(key(live.event.self, live.event.piece, live.event.write), at);
  by_cell_[live.event.cell].push_back(at);
  lives_.push_back(std::move(live));
  return at;
}

std::uint32_t Walk::find(const Name& self, std::uint32_t piece, bool write) const {
  const auto at = index_.find(key(self, piece, write));
  return at == index_.end() ? kNone : at->second;
}

const std::vector<std::uint32_t>& Walk::events_at(const CellKey& cell) const {
  static const std::vector<std::uint32_t> none;
  const auto at = by_cell_.find(cell);
  return at == by_cell_.end() ? none : at->second;
}

std::span<const std::uint32_t> Walk::events_before(const CellKey& cell, std::size_t stamp) const {
  const std::vector<std::uint32_t>& all = events_at(cell);
  return {all.begin(), std::lower_bound(all.begin(), all.end(), stamp)};
}

bool Walk::has_fence() const {
  const std::vector<std::uint32_t>& fences = events_at(kFences);
  return std::any_of(fences.begin(), fences.end(),
                     [&](std::uint32_t i) { return lives_[i].executed; });
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
  const auto at = writes_.find(key_of(m, cell));
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
  l.at = ++executions_;
}

std::uint32_t Walk::keep(std::uint32_t given, Live live) {
  if (fenced_ && live.lane != kUnknown) {
    live.fenced = lanes_[live.lane.agent].fenced;
    live.published = lanes_[live.lane.agent].published;
  }
  if (given == kNone) {
    live.executed = true;
    live.at = ++executions_;
    return add(std::move(live));
  }
  lives_[given] = std::move(live);
  executed(given);
  return given;
}

// What must be executed before an event of the given graph, besides what it reads: at the point of
// coherence, and for fence.sc, all that coherence puts before it, and what reads those.
void Walk::relate() {
  waits_for_.assign(given_, {});
  std::vector<std::uint32_t> by_cell(given_);
  std::iota(by_cell.begin(), by_cell.end(), 0u);
  const auto cell = [&](std::uint32_t at) -> const CellKey& { return lives_[at].event.cell; };
  std::stable_sort(by_cell.begin(), by_cell.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return cell(a) < cell(b); });
  for (auto first = by_cell.begin(); first != by_cell.end();) {
    if (schedule::must_stop()) return;  // the run ends at its first point
    const auto end = std::find_if(first, by_cell.end(),
                                  [&](std::uint32_t at) { return cell(at) != cell(*first); });
    relate_cell({first, end});
    first = end;
  }
}

// The same of the events of one cell, by their stamps.
void Walk::relate_cell(std::span<const std::uint32_t> events) {
  std::vector<std::uint32_t> writes;
  std::copy_if(events.begin(), events.end(), std::back_inserter(writes),
               [&](std::uint32_t at) { return lives_[at].event.write; });
  if (writes.empty()) return;
  const bool fence = lives_[writes.front()].event.cell == kFences;
  // Reductions of a set: nothing tells their order, and it may have to be any.
  std::vector<bool> of_set;
  for (const std::uint32_t w : writes) {
    const Event& e = lives_[w].event;
    const std::uint32_t read = find(e.self, e.piece, false);
    of_set.push_back(read != kNone && lives_[read].event.from == kTotal);
  }
  for (std::size_t later = 0; later < writes.size(); ++later) {
    const std::uint32_t j = writes[later];
    const Event& b = lives_[j].event;
    for (std::size_t k = 0; k < later; ++k) {
      const std::uint32_t i = writes[k];
      const Event& a = lives_[i].event;
      if (a.self == b.self || (of_set[k] && of_set[later])) continue;
      // A write at the point of coherence lands behind all that are there. Another one may come
      // later than such a write and land before it.
      if (overtakes(b, a)) {
        if (fence || b.pointed) waits_for_[i].push_back(j);
      } else if (fence || a.pointed) {
        waits_for_[j].push_back(i);
      }
    }
  }
  for (const std::uint32_t r : events) {
    const Event& read = lives_[r].event;
    if (read.write) continue;
    if (read.from == kSome) {
      relate_sum(r, writes);
      continue;
    }
    const std::uint32_t source = find_write(read.from, read.cell);
    if (read.stuck && source != kNone) {
      for (const Name& name : read.after) {
        const std::uint32_t other = find_write(name, read.cell);
        if (other != kNone) waits_for_[source].push_back(other);
      }
    }
    // From-reads: a read at the point of coherence precedes what overwrites the one that it
    // returns.
    if (!read.pointed || read.stuck || read.from == kTotal) continue;
    if (source == kNone && read.from != kInitial) continue;
    for (const std::uint32_t w : writes) {
      const Event& write = lives_[w].event;
      if (write.self == read.self || w == source) continue;
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
  a.base = {};
  a.base_fenced = {};
  if (current_ != kNoAgent) {
    a.past = agents_[current_].past;
    a.base = lanes_past(current_);
    a.base_fenced = lanes_fenced(current_);
  }
}

void Walk::on_arrive(AgentId id, const void* barrier) {
  arrivals_[barrier].join(agents_[id].past);
  if (record_ != nullptr) record_->on_arrive(execution_->record(id).thread);
}

// Whether what the agent stands before is an event of the graph.
bool Walk::is_event(AgentId id) const {
  const Pending pending = execution_->record(id).pending;
  if (pending == Pending::fence_sc) return orders_fence_sc();
  return pending == Pending::access;
}

void Walk::on_barrier(std::span<const AgentId> met, const void* barrier) {
  Prefix all;
  if (const auto at = arrivals_.find(barrier); at != arrivals_.end()) {
    all = std::move(at->second);
    arrivals_.erase(at);
  }
  for (const AgentId id : met) all.join(agents_[id].past);
  for (const AgentId id : met) agents_[id].past = all;
  Prefix lanes;
  Fenced fenced;
  for (const AgentId id : met) {
    lanes.join(lanes_past(id));
    fenced.join(lanes_fenced(id));
  }
  for (const AgentId id : met) join_lanes(id, lanes, fenced);
}

void Walk::on_leave(AgentId id, const void* barrier) {
  if (const auto at = arrivals_.find(barrier); at != arrivals_.end()) {
    agents_[id].past.join(at->second);
  }
}

namespace {

// Who comes first there: reads of an atomic each, that the first one's write takes away.
CellKey first_of(machine::Address at) { return {at.region, at.offset, 8}; }

}  // namespace

bool Walk::orders_first(machine::Address at) const { return !sets_.is_set(first_of(at)); }

// Had it been first, what the first one did might not be behind the opening. As long as no run
// shows that this decides anything, who comes first is no event.
void Walk::on_late(AgentId id, const void* barrier, const schedule::Late& late) {
  const auto at = arrivals_.find(barrier);
  if (abandoned_ || at == arrivals_.end()) return;
  if (agents_[id].past.has(at->second) && !late.differs) return;
  if (late.itself) return sets_.leave_out({agents_[id].label, late.site, late.site});
  if (sets_.is_set(first_of(late.at))) not_a_set(first_of(late.at));
}

void Walk::on_order(AgentId earlier, AgentId later) {
  agents_[later].past.join(agents_[earlier].past);
  join_lanes(later, lanes_past(earlier), lanes_fenced(earlier));
}

void Walk::on_end(AgentId id, AgentId parent) {
  if (parent == kNoAgent) return;
  agents_[parent].past.join(agents_[id].past);
  join_lanes(parent, lanes_past(id), lanes_fenced(id));
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
  if (!e.write && e.from == kSome) {
    return std::all_of(e.after.begin(), e.after.end(), [&](const Name& name) {
      const std::uint32_t red = find_write(name, e.cell);
      return red == kNone || lives_[red].executed;
    });
  }
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
      if (a.late || yields(id)) continue;
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
      if (lives_[first].event.stuck && lives_[first].event.late) {
        a.late = a.stuck = again = true;
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
  if (best == kNoAgent) best = next_yielding(ready);
  if (best == kNoAgent) note_unreached(ready);
  return best;
}

// Whether an agent has passed an event of the graph without making it, or stands before another
// access than the graph's next one: the run is not the graph's (see diverge).
bool Walk::note_diverged(const schedule::ReadyView& ready) {
  if (foresight_ != nullptr) return false;
  const auto note = [&](AgentId id, std::uint16_t site) {
    sets_.leave_out({agents_[id].label, site, site, LeftOut::What::unreached});
    return true;
  };
  for (std::uint32_t at = 0; at < given_; ++at) {
    const Event& e = lives_[at].event;
    const AgentId id = e.self.agent < id_of_.size() ? id_of_[e.self.agent] : kNoAgent;
    if (lives_[at].executed || id == kNoAgent || agents_[id].nth <= e.self.nth) continue;
    return note(id, e.site != 0 ? e.site : execution_->record(id).last_site);
  }
  for (std::uint32_t i = 0; i < ready.count(); ++i) {
    const AgentId id = ready.at(i);
    const AgentState& a = agents_[id];
    if (a.late || a.stuck || execution_->record(id).pending != Pending::access) continue;
    const schedule::PendingAccess& next = execution_->record(id).access;
    bool any = false, same = false;
    for (std::uint32_t piece = 0;; ++piece) {
      const std::uint32_t read = find({a.index, a.nth}, piece, false);
      const std::uint32_t at = read != kNone ? read : find({a.index, a.nth}, piece, true);
      if (at == kNone || at >= given_) break;
      any = true;
      const CellKey& cell = lives_[at].event.cell;
      same = same || cell == kLanes ||
             (cell.region == next.at.region && cell.offset < next.at.offset + next.bytes &&
              next.at.offset < cell.offset + cell.size);
    }
    if (next.bytes != 0 && any && !same) return note(id, next.site);
  }
  return false;
}

// Nobody can step along the graph. That is no execution where one of those that should stands
// before its event, or waits for what is there. But where each of them waits for another agent to
// come to somewhere, and one stands before an access that the graph does not have, the graph lacks
// what its events need: such a wait is missing in their pasts.
void Walk::note_unreached(const schedule::ReadyView& ready) {
  if (note_diverged(ready) || note_crossed_sums() || note_lane_order()) return;
  bool any = false;
  for (std::uint32_t at = 0; at < given_; ++at) {
    const Live& l = lives_[at];
    if (l.executed) continue;
    const std::uint32_t index = l.event.self.agent;
    const AgentId id = index < id_of_.size() ? id_of_[index] : kNoAgent;
    if (id == kNoAgent) {
      any = true;
      continue;
    }
    const schedule::AgentStatus status = execution_->record(id).status;
    if (status == schedule::AgentStatus::ready || agents_[id].stuck) return;
    if (status != schedule::AgentStatus::awaiting) {
      any = true;
    } else if (l.event.self.nth == agents_[id].nth && source_is_there(at)) {
      return;
    }
  }
  for (std::uint32_t i = 0; i < ready.count() && any; ++i) {
    const AgentId id = ready.at(i);
    if (agents_[id].late || agents_[id].stuck) continue;
    const std::uint16_t site = execution_->record(id).access.site;
    sets_.leave_out({agents_[id].label, site, site, LeftOut::What::unreached});
    return;
  }
}

bool Walk::yields(AgentId id) const { return execution_->record(id).pending == Pending::yield; }

// Of the agents that go round a loop, the one that did so longest ago.
AgentId Walk::next_yielding(const schedule::ReadyView& ready) {
  AgentId best = kNoAgent;
  for (std::uint32_t i = 0; i < ready.count(); ++i) {
    const AgentId id = ready.at(i);
    if (!yields(id) || agents_[id].stuck) continue;
    const auto before = [&](const AgentState& a, const AgentState& b) {
      return a.yielded != b.yielded ? a.yielded < b.yielded : a.label < b.label;
    };
    if (best == kNoAgent || before(agents_[id], agents_[best])) best = id;
  }
  if (best != kNoAgent) agents_[best].yielded = ++yields_;
  return best;
}

// A step beyond it: the agent of the lowest label, those that go round a loop in turn when nobody
// else can step. Polls that are stuck come last, to fail.
AgentId Walk::extend(const schedule::ReadyView& ready) {
  AgentId best = kNoAgent, stuck = kNoAgent;
  for (std::uint32_t i = 0; i < ready.count(); ++i) {
    const AgentId id = ready.at(i);
    if (yields(id) && !agents_[id].stuck) continue;
    AgentId& slot = agents_[id].stuck ? stuck : best;
    if (slot == kNoAgent || agents_[id].label < agents_[slot].label) slot = id;
  }
  if (best == kNoAgent) best = next_yielding(ready);
  return best != kNoAgent ? best : stuck;
}

// Whether what a stuck poll sees is the last one in coherence order, or one of several.
bool Walk::is_last(const Live& stuck) const {
  if (!stuck.wanted) return false;
  const machine::Cell* const cell = history_of(stuck);
  if (cell == nullptr) return false;
  for (const Message* m = cell->newest; m != nullptr; m = m->older) {
    if (name_of(*m) != stuck.event.from) continue;
    bool last = !stuck.wanted->holds(value_of(*m, stuck.event.cell.size));
    for (const Message* x = cell->newest; x != nullptr; x = x->older) {
      // One that is no event offers itself to no poll, and ends this one or leaves it stuck.
      const bool event = weak_events_ || machine::is_strong(x->order);
      last = last && ((x->before & bit(*m)) == 0 ||
                      (!event && !stuck.wanted->holds(value_of(*x, stuck.event.cell.size))));
    }
    if (last) return true;
  }
  return false;
}

// Whether the thread is one of those of the agent that steps. A warp's lanes are one behind the
// other in their block, and its agent has the first one.
bool Walk::is_of_current(machine::ThreadId thread) const {
  AgentId owner = kNoAgent;
  std::uint32_t nearest = 0;
  for (AgentId id = 0; id < execution_->agent_count(); ++id) {
    const schedule::AgentRecord& r = execution_->record(id);
    if (r.thread == machine::kNoThread || r.status == schedule::AgentStatus::done) continue;
    const auto from = execution_->machine().threads_from(r.thread, thread);
    if (!from || (owner != kNoAgent && *from >= nearest)) continue;
    owner = id;
    nearest = *from;
  }
  return owner == current_;
}

std::uint32_t Walk::choose(schedule::DecisionKind kind, std::uint64_t, std::uint32_t,
                           std::uint32_t options) {
  const bool asked = std::exchange(asked_, false);
  if (kind == schedule::DecisionKind::sum) {
    // No event of the graph: nobody but the sum's value can tell.
    sum_orders_ = std::max(sum_orders_, options);
    return sum_order_ % options;
  }
  if (kind == schedule::DecisionKind::overlap) {
    overlaps_ = true;
    return sets_.starts_late() ? choose_option(options) : 0;
  }
  // Which lanes act first is no question of the machine's.
  if (kind == schedule::DecisionKind::split || fences_asked_) return choose_lanes(options);
  if (kind == schedule::DecisionKind::behind) {
    if (!parts_.empty()) {
      const std::uint32_t answer = steer(options);
      current().held = answer != 0;
      return answer;
    }
    return sets_.parts_lanes(current().label) ? choose_option(options) : 0;
  }
  // Bytes of a copy, which a look at their mbarrier may miss: the program asks, not the machine.
  if (kind == schedule::DecisionKind::miss && !asked) {
    // Of a look that the graph has behind the bytes it does not ask whether it came before them:
    // another graph has it there.
    const AgentState& agent = current();
    const std::uint32_t given = find({agent.index, agent.nth}, piece_, false);
    if (given != kNone && lives_[given].event.cell != kLanes) return 0;
    return choose_option(options);
  }
  // Looks in vain are no part of the run: a loop that gives up is a read of what it saw last.
  if (kind == schedule::DecisionKind::timeout) return 0;
  const std::uint32_t answer = prepared_ < options ? prepared_ : 0;
  prepared_ = 0;
  return answer;
}

}  // namespace ringfence::check

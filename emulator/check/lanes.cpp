// Lanes of a warp: which of them go first.
//
// A run steps a warp as one thread, so all that its lanes did before is in the past of what one of
// them does next. Beside that past each lane has one of its own: what it did itself, what it read,
// what barriers and exchanges gave it. Where a revisit is passed over only because of the first, an
// order of the lanes is left out that could be told apart; from then on the parts that a warp may
// go on with are a choice of the graph, as what a read returns is, and never revisited.
//
// At the point of coherence (mode coherent) a graph may be one that the program has, and yet have
// no run that steps warps in one order: see note_lane_order.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "emulator/check/walk.hpp"

namespace ringfence::check {

using machine::ThreadId;
using schedule::AgentId;
using schedule::kNoAgent;

namespace {

constexpr std::uint32_t kWarpLanes = 32;

// The keys of a warp among the cells of Sets.
CellKey key_of(std::uint64_t label) { return {kLanes.region, label, 2}; }
CellKey key_of_parts(std::uint64_t label) { return {kLanes.region, label, 0x42}; }
CellKey key_of_fences(std::uint64_t label) { return {kLanes.region, label, 0x43}; }

}  // namespace

bool Sets::orders_lanes(std::uint64_t label) const { return ordered_.contains(key_of(label)); }

bool Sets::order_lanes(std::uint64_t label) {
  const bool fresh = ordered_.insert(key_of(label)).second;
  if (fresh) ++generation_;
  return fresh;
}

bool Sets::parts_lanes(std::uint64_t label) const { return has(key_of_parts(label)); }

bool Sets::part_lanes(std::uint64_t label) {
  const bool fresh = ordered_.insert(key_of_parts(label)).second;
  if (fresh) ++generation_;
  return fresh;
}

bool Sets::orders_fences(std::uint64_t label) const { return has(key_of_fences(label)); }

bool Sets::order_fences(std::uint64_t label) {
  const bool fresh = ordered_.insert(key_of_fences(label)).second;
  if (fresh) ++generation_;
  return fresh;
}

void Sets::leave_out(const LeftOut& order) { left_out_.insert(order); }

std::vector<LeftOut> Sets::left_out() const { return {left_out_.begin(), left_out_.end()}; }

Walk::Lane& Walk::lane(AgentId agent, ThreadId thread) {
  const auto [at, fresh] = lane_of_.emplace(thread, 0);
  // The machine's thread serves one launch of its stream after another: in each it is a new agent's
  // lane, behind all that the launch is behind.
  const bool next =
      !fresh && lanes_[at->second].agent != agent &&
      execution_->record(lanes_[at->second].agent).status == schedule::AgentStatus::done;
  if (fresh || next) {
    Lane made;
    if (next) {
      made.past = lanes_[at->second].past;
      made.fenced = lanes_[at->second].fenced;
      made.published = lanes_[at->second].published;
    }
    made.past.join(agents_[agent].base);
    made.fenced.join(agents_[agent].base_fenced);
    made.agent = agent;
    at->second = lane_number(agent, thread);
    if (lanes_.size() <= at->second) lanes_.resize(at->second + 1);
    lanes_[at->second] = std::move(made);
    if (lanes_of_.size() <= agent) lanes_of_.resize(agent + 1);
    lanes_of_[agent].push_back(at->second);
  }
  return lanes_[at->second];
}

// Of a warp's lane, in mode coherent, the same in all runs: graphs name lanes there.
std::uint32_t Walk::lane_number(AgentId agent, ThreadId thread) {
  if (!is_coherent()) return static_cast<std::uint32_t>(lanes_.size());
  const std::uint8_t number = thread_number(agent, thread);
  const std::uint32_t lane = number != Event::kNoThread ? number : kWarpLanes + others_++;
  return names_of_.lane(agents_[agent].index, lane);
}

// The same of a part of an instruction (lane_of).
std::uint32_t Walk::part_number(ThreadId thread, std::uint32_t part) {
  if (!is_coherent()) return static_cast<std::uint32_t>(lanes_.size());
  const std::uint8_t number = thread_number(current_, thread);
  const std::uint32_t lane = number != Event::kNoThread ? number : kWarpLanes + others_++;
  return names_of_.lane(agents_[current_].index, (part + 1) << 16 | lane);
}

// Which of the agent's threads this is, and not an asynchronous operation's.
std::uint8_t Walk::thread_number(AgentId agent, ThreadId thread) const {
  const ThreadId first = execution_->record(agent).thread;
  if (first == machine::kNoThread) return Event::kNoThread;
  const auto number = execution_->machine().threads_from(first, thread);
  return number && *number < kWarpLanes ? static_cast<std::uint8_t>(*number) : Event::kNoThread;
}

// The next event of the lane, in its own past.
Name Walk::lane_step(ThreadId thread) {
  Lane& l = lane(current_, thread);
  const Name name{static_cast<std::uint32_t>(&l - lanes_.data()), l.nth++};
  l.past.add(name);
  return name;
}

// What a lane does at one of several replicas, by one instruction. Those parts come one after
// another here, but are ordered with nothing but what comes before the instruction and behind it:
// each is a lane of its own, as long as it lasts.
Walk::Lane& Walk::lane_of(const Question& q) {
  Lane& lane = this->lane(current_, q.who);
  if (q.access->share == machine::Share::whole) return lane;
  const auto whole = static_cast<std::uint32_t>(&lane - lanes_.data());
  const std::uint32_t step = execution_->machine().steps();
  if (lane.part_step != step) {
    lane.part_step = step;
    if (q.access->share == machine::Share::first) {
      lane.instruction = step;
      lane.part = 0;
      lane.before = lane.past;
    } else {
      ++lane.part;
    }
  }
  const std::uint32_t part = lane.part;
  const Prefix before = lane.before;
  const auto [at, fresh] = part_of_.emplace(std::uint64_t{whole} << 32 | part, 0);
  if (fresh) {
    at->second = part_number(q.who, part);
    if (lanes_.size() <= at->second) lanes_.resize(at->second + 1);
    lanes_[at->second].agent = current_;
  }
  Lane& of_part = lanes_[at->second];
  if (of_part.part_step != step) {
    of_part.part_step = step;
    of_part.past = before;
  }
  return of_part;
}

Name Walk::lane_step(const Question& q) {
  Lane& l = lane_of(q);
  const Name name{static_cast<std::uint32_t>(&l - lanes_.data()), l.nth++};
  l.past.add(name);
  lane(current_, q.who).past.add(name);
  return name;
}

// Of the last one at several replicas, if this is a part of it.
std::uint32_t Walk::instruction_of(const Question& q) {
  return q.access->share == machine::Share::whole ? 0 : lane(current_, q.who).instruction;
}

// Whether what the event's instruction did at another replica is in this past of a lane.
bool Walk::by_other_replica(const Prefix& lane_past, const Live& event) const {
  return event.instruction != 0 && std::any_of(lives_.begin(), lives_.end(), [&](const Live& l) {
           return l.executed && l.instruction == event.instruction && l.thread == event.thread &&
                  l.lane != kUnknown && lane_past.has(l.lane);
         });
}

// An event of the graph as the next one of its lane, which has not made that step.
void Walk::name_lane(Event& event, ThreadId thread, std::uint16_t site) {
  event.thread = thread_number(current_, thread);
  if (is_coherent() && event.thread != Event::kNoThread) {
    name_lane(event, lane(current_, thread), site);
  }
}

void Walk::name_lane(Event& event, const Question& q) {
  event.thread = thread_number(current_, q.who);
  if (is_coherent() && event.thread != Event::kNoThread) {
    name_lane(event, lane_of(q), q.access->site);
  }
}

void Walk::name_lane(Event& event, const Lane& l, std::uint16_t site) {
  event.lane = {static_cast<std::uint32_t>(&l - lanes_.data()), l.nth};
  event.lane_past = l.past;
  event.lane_past.add(event.lane);
  event.site = site;
}

// The write of a read-modify-write is the read's step.
void Walk::name_lane_of_write(Event& event, const Question& q) {
  const std::uint32_t read =
      q.kind == machine::AccessKind::rmw ? find(event.self, event.piece, false) : kNone;
  if (read == kNone) return name_lane(event, q);
  event.thread = lives_[read].event.thread;
  event.lane = lives_[read].event.lane;
  event.lane_past = lives_[read].event.lane_past;
  event.site = lives_[read].event.site;
}

void Walk::join_lanes(AgentId agent, const Prefix& past, const Fenced& fenced) {
  agents_[agent].base.join(past);
  agents_[agent].base_fenced.join(fenced);
  if (lanes_of_.size() <= agent) return;
  for (const std::uint32_t l : lanes_of_[agent]) {
    lanes_[l].past.join(past);
    lanes_[l].fenced.join(fenced);
  }
}

Prefix Walk::lanes_past(AgentId agent) const {
  Prefix all = agents_[agent].base;
  if (lanes_of_.size() <= agent) return all;
  for (const std::uint32_t l : lanes_of_[agent]) all.join(lanes_[l].past);
  return all;
}

Walk::Fenced Walk::lanes_fenced(AgentId agent) const {
  Fenced all = agents_[agent].base_fenced;
  if (lanes_of_.size() <= agent) return all;
  for (const std::uint32_t l : lanes_of_[agent]) all.join(lanes_[l].fenced);
  return all;
}

void Walk::on_lanes_arrive(AgentId id, std::span<const ThreadId> lanes, const void* barrier) {
  // A host has none: what it knows it hands on to the lanes of its launches.
  if (execution_->record(id).thread == machine::kNoThread) {
    lane_arrivals_[barrier].join(lanes_past(id));
    fenced_arrivals_[barrier].join(lanes_fenced(id));
  }
  Prefix& arrivals = lane_arrivals_[barrier];
  Prefix last;  // that has been joined
  for (const ThreadId thread : lanes) {
    const Prefix& past = lane(id, thread).past;
    if (last.shares(past)) continue;
    arrivals.join(past);
    last = past;
  }
  if (!fenced_) return;
  Prefix& met = fenced_arrivals_[barrier].met;
  for (const ThreadId thread : lanes) met.join(lane(id, thread).fenced.met);
}

void Walk::on_lanes_leave(AgentId id, std::span<const ThreadId> lanes, const void* barrier) {
  const auto at = lane_arrivals_.find(barrier);
  if (at == lane_arrivals_.end()) return;
  if (execution_->record(id).thread == machine::kNoThread) {
    join_lanes(id, at->second, fenced_arrivals_[barrier]);
  }
  Prefix before, after;  // of the lane before
  bool known = false;
  for (const ThreadId thread : lanes) {
    Prefix& past = lane(id, thread).past;
    if (known && past.shares(before)) {
      past = after;
      continue;
    }
    known = true;
    before = past;
    past.join(at->second);
    after = past;
  }
  if (!fenced_) return;
  const Prefix& met = fenced_arrivals_[barrier].met;
  for (const ThreadId thread : lanes) lane(id, thread).fenced.met.join(met);
}

// One that went on behind its arrival may have made fences since.
void Walk::on_block_barrier(std::span<const ThreadId> arriving, std::span<const ThreadId> syncing) {
  if (record_ != nullptr) record_->on_block_barrier(arriving, syncing);
  if (!fenced_) return;
  const std::set<ThreadId> waiting(syncing.begin(), syncing.end());
  Prefix met;
  for (const ThreadId thread : arriving) {
    const auto at = lane_of_.find(thread);
    if (at != lane_of_.end() && waiting.contains(thread))
      met.join(lanes_[at->second].fenced.synced);
  }
  for (const ThreadId thread : waiting) {
    const auto at = lane_of_.find(thread);
    if (at != lane_of_.end()) lanes_[at->second].fenced.synced.join(met);
  }
}

// What a lane does next depends on what the others read.
void Walk::on_exchange(AgentId id, std::span<const ThreadId> lanes) {
  if (lanes.size() < 2) return;
  Prefix all;
  for (const ThreadId thread : lanes) all.join(lane(id, thread).past);
  for (const ThreadId thread : lanes) lane(id, thread).past = all;
}

// Whether an event is in a past, that of an access by `by` at `site`, only because lanes of warps
// act in the order in which they do. Then the run is given up, and the search starts again with
// those warps' lanes ordered; where that does not reach the other order, it is noted as left out.
bool Walk::left_out(std::uint32_t by, std::uint16_t site, const Prefix& past,
                    const Prefix& lane_past, const Live& event, bool awaits) {
  if (!event.executed || event.lane == kUnknown || !past.has(event.event.self) ||
      lane_past.has(event.lane)) {
    return false;
  }
  if (by_other_replica(lane_past, event)) {
    const std::uint64_t label = names_of_.label(event.event.self.agent);
    sets_.leave_out({label, event.access.site, site, LeftOut::What::replicas});
    return false;
  }
  // Of each warp: the last event in the lane's past, and the first one that is not.
  struct Found {
    std::optional<std::uint32_t> in, out;
    bool elsewhere = false;  // one behind `event` is of another instruction, or of the same step
    std::vector<const Live*> late;  // `event`, and those behind it, that are not
  };
  std::vector<Found> found(id_of_.size());
  for (const Live& l : lives_) {
    if (!l.executed || l.lane == kUnknown || !past.has(l.event.self)) continue;
    const Name& self = l.event.self;
    Found& f = found[self.agent];
    if (!lane_past.has(l.lane)) {
      if (self == event.event.self || l.past.has(event.event.self)) f.late.push_back(&l);
      if (by_other_replica(lane_past, l)) continue;
      f.out = std::min(f.out.value_or(self.nth), self.nth);
      continue;
    }
    f.in = std::max(f.in.value_or(0), self.nth);
    if (self.agent != event.event.self.agent || self < event.event.self) continue;
    if (self == event.event.self || l.access.site != event.access.site) f.elsewhere = true;
  }
  // The access itself comes last.
  found[by].in = ~std::uint32_t{0};
  if (by == event.event.self.agent && site != event.access.site) found[by].elsewhere = true;
  bool fresh = false;
  for (std::uint32_t i = 0; i < found.size(); ++i) {
    const Found& f = found[i];
    const AgentId id = id_of_[i];
    const bool several = id < lanes_of_.size() && lanes_of_[id].size() > 1;
    if (!several || !f.in || !f.out || *f.in < *f.out) continue;
    const std::uint64_t label = names_of_.label(i);
    if (i != event.event.self.agent || f.elsewhere) {
      if (!(awaits && i == by) && can_part(i, f.late)) {
        fresh = sets_.part_lanes(label) || fresh;
      } else {
        const auto first = std::min_element(
            f.late.begin(), f.late.end(),
            [](const Live* a, const Live* b) { return a->event.self < b->event.self; });
        sets_.leave_out({label, (first != f.late.end() ? **first : event).access.site, site});
      }
    } else if (sets_.order_lanes(label)) {
      fresh = true;
    }
  }
  if (fresh) abandon();
  return fresh;
}

// Whether an access can come before an event that is in its past because lanes of this warp act in
// one order, once they are parted: those that make the event, or have it in their past, wait for
// the others at an access where each order of lanes is asked for. A lane goes on behind a wait only
// when no other one can, so there is none.
bool Walk::can_part(std::uint32_t agent, std::span<const Live* const> late) const {
  if (!is_coherent()) return false;
  std::map<Name, std::set<std::uint32_t>> lanes_at;  // by step
  for (const Live& l : lives_) {
    if (l.event.self.agent != agent) continue;
    if (l.event.waits || l.wanted) return false;
    if (l.lane != kUnknown) lanes_at[l.event.self].insert(l.lane.agent);
  }
  return std::all_of(late.begin(), late.end(), [&](const Live* l) {
    return l->event.cell != kFences && !l->access.of_barrier &&
           lanes_at[l->event.self].size() <= static_cast<std::size_t>(schedule::kMostSingleLanes);
  });
}

// What of a graph comes before what by program order and by what else orders threads.
class LaneOrder {
 public:
  // Lanes are threads of their own, in those warps.
  LaneOrder(bool threads, std::set<std::uint32_t> warps)
      : threads_(threads), warps_(std::move(warps)) {}
  // What is executed as one: all that the lanes of a warp do at a point.
  std::pair<Name, std::uint32_t> step(const Event& e) const {
    return {e.self, threads_ ? e.lane.agent : kUnknown.agent};
  }
  bool precedes(const Event& a, const Event& b) const {
    const bool ordered = !threads_ || !warps_.contains(a.self.agent);
    if (ordered && a.self.agent == b.self.agent && a.self.nth < b.self.nth) return true;
    return a.lane != kUnknown && b.lane_past.has(a.lane);
  }

 private:
  bool threads_;
  std::set<std::uint32_t> warps_;
};

// Of the events of the graph that the run has not come to, those that could be executed in some
// order, and in which turn at the earliest.
std::vector<Walk::Turn> Walk::turns(const LaneOrder& order) const {
  // By what is executed as one: its events, for how many others it waits, and who waits for it.
  struct Step {
    std::vector<std::uint32_t> events;
    std::uint32_t waits = 0;
    std::vector<std::uint32_t> next;
  };
  std::vector<Step> steps;
  std::vector<std::uint32_t> step_of(given_, kNone);
  std::map<std::pair<Name, std::uint32_t>, std::uint32_t> known;
  std::vector<std::uint32_t> left;
  for (std::uint32_t at = 0; at < given_; ++at) {
    if (lives_[at].executed) continue;
    const auto number = static_cast<std::uint32_t>(steps.size());
    const auto [step, fresh] = known.emplace(order.step(lives_[at].event), number);
    if (fresh) steps.emplace_back();
    step_of[at] = step->second;
    steps[step->second].events.push_back(at);
    left.push_back(at);
  }
  const auto wait = [&](std::uint32_t at, std::uint32_t other) {
    if (other >= given_ || lives_[other].executed || step_of[at] == step_of[other]) return;
    ++steps[step_of[at]].waits;
    steps[step_of[other]].next.push_back(step_of[at]);
  };
  for (const std::uint32_t at : left) {
    const Event& e = lives_[at].event;
    for (const std::uint32_t other : left) {
      if (order.precedes(lives_[other].event, e)) wait(at, other);
    }
    for (const std::uint32_t other : waits_for_[at]) {
      if (waits(at, other)) wait(at, other);
    }
    if (e.write) continue;
    if (e.from != kSome) {
      wait(at, find_write(e.from, e.cell));
      continue;
    }
    for (const Name& name : e.after) wait(at, find_write(name, e.cell));
  }
  std::vector<Turn> out;
  std::vector<std::uint32_t> now, next;
  for (std::uint32_t s = 0; s < steps.size(); ++s) {
    if (steps[s].waits == 0) now.push_back(s);
  }
  for (std::uint32_t turn = 0; !now.empty(); ++turn) {
    next.clear();
    for (const std::uint32_t s : now) {
      for (const std::uint32_t at : steps[s].events) out.push_back({at, turn});
      for (const std::uint32_t later : steps[s].next) {
        if (--steps[later].waits == 0) next.push_back(later);
      }
    }
    now.swap(next);
  }
  return out;
}

// Nobody can step along the graph. At the point of coherence order of execution is coherence order:
// a graph may have no run only because lanes of a warp act in the order in which they do. Then the
// search starts again with all orders of that warp's lanes, each access of one of them anywhere
// behind the others' (DecisionKind::behind). Where it has those, or cannot have them (a warp goes
// on behind a wait only when no other of its lanes can; more than a few lanes act at once), the
// order is noted as left out.
bool Walk::note_lane_order() {
  if (!is_coherent()) return false;
  std::set<std::uint32_t> several, waiting;
  for (std::uint32_t at = 0; at < lives_.size(); ++at) {
    const Live& l = lives_[at];
    const std::uint32_t agent = l.event.self.agent;
    if (l.event.waits || l.wanted) waiting.insert(agent);
    if (at < given_ && !l.executed) several.insert(agent);
  }
  std::erase_if(several, [&](std::uint32_t agent) {
    const auto lane_of = [&](const Live& l) { return l.event.lane.agent; };
    const Live* first = nullptr;
    for (std::uint32_t at = 0; at < given_; ++at) {
      const Live& l = lives_[at];
      if (l.executed || l.event.self.agent != agent) continue;
      if (first == nullptr) first = &l;
      if (lane_of(l) != lane_of(*first)) return false;
    }
    return true;
  });
  if (several.empty()) return false;
  // Of a warp that is parted each order is a graph.
  std::set<std::uint32_t> threads = several;
  std::erase_if(threads, [&](std::uint32_t agent) {
    return !waiting.contains(agent) && sets_.parts_lanes(names_of_.label(agent));
  });
  const std::vector<Turn> apart = turns(LaneOrder(true, threads));
  if (apart.size() < remaining_ || turns(LaneOrder(false, {})).size() == remaining_) return false;
  for (const Turn& ahead : apart) {
    const Event& e = lives_[ahead.event].event;
    const auto other = std::find_if(apart.begin(), apart.end(), [&](const Turn& t) {
      const Event& o = lives_[t.event].event;
      return o.self.agent == e.self.agent && o.self.nth <= e.self.nth && ahead.turn < t.turn;
    });
    if (other == apart.end()) continue;
    const std::uint64_t label = names_of_.label(e.self.agent);
    if (!waiting.contains(e.self.agent) && sets_.part_lanes(label)) return true;
    sets_.leave_out({label, e.site, lives_[other->event].event.site});
    return true;
  }
  return false;
}

std::uint32_t Walk::choose_lanes(std::uint32_t options) {
  const AgentState& agent = current();
  const bool asks = std::exchange(fences_asked_, false)
                        ? sets_.orders_fences(agent.label)
                        : sets_.orders_lanes(agent.label) || sets_.parts_lanes(agent.label);
  if (!asks) return steer(options);
  // Not where the run that led to the graph had no choice.
  const std::uint32_t given = find({agent.index, agent.nth}, piece_, false);
  const bool none =
      given == kNone ? !is_new({agent.index, agent.nth}) : lives_[given].event.cell != kLanes;
  if (none) return steer(options);
  parts_.clear();
  return choose_option(options);
}

// The lane that the next event of the warp is of, or that of the one so far ahead, as the graph has
// them.
std::optional<std::uint8_t> Walk::due_lane(std::uint32_t ahead) {
  if (remaining_ == 0) return {};
  const AgentState& agent = current();
  // A choice comes first, which the graph has.
  const std::uint32_t choice = find({agent.index, agent.nth}, piece_, false);
  if (choice < given_ && !lives_[choice].executed && lives_[choice].event.cell == kLanes) return {};
  const Name self{agent.index, agent.nth + (piece_ > 0 ? 1 : 0) + ahead};
  const std::uint32_t read = find(self, 0, false);
  const std::uint32_t at = read != kNone ? read : find(self, 0, true);
  if (at >= given_ || lives_[at].executed) return {};
  const Event& e = lives_[at].event;
  if (e.cell == kLanes || e.thread == Event::kNoThread) return {};
  return e.thread;
}

// Which part of a warp has to go on now, where the graph has events of it. A part goes on as far as
// it can by itself, so that what it does may come before, or behind, what another one did in the
// run that led to the graph: whose wait is over first, for example, depends on which writes are
// there.
std::uint32_t Walk::steer(std::uint32_t options) {
  const std::vector<std::uint32_t> parts = std::move(parts_);
  parts_.clear();
  const std::optional<std::uint8_t> due = due_lane(0);
  if (parts.size() != options || abandoned_ || !due) return 0;
  const auto has = [&](std::uint32_t k) { return (parts[k] >> *due & 1U) != 0; };
  // All lanes of an instruction, one after the other, or one of them.
  const bool all = (parts[0] & parts[1]) != 0;
  bool in_turn = true;
  for (std::uint32_t lane = 0, ahead = 0; all && in_turn && lane < kWarpLanes; ++lane) {
    if ((parts[0] >> lane & 1U) == 0) continue;
    const std::optional<std::uint8_t> next = due_lane(ahead++);
    if (!next) break;
    in_turn = *next == lane;
  }
  if (has(0) && in_turn) return 0;
  for (std::uint32_t k = 1; k < options; ++k) {
    if (has(k)) return k;
  }
  return 0;
}

// Nobody can go on, and a lane that could was held back for others.
void Walk::note_held() {
  for (const AgentState& agent : agents_) {
    if (!agent.held || foresight_ != nullptr) continue;
    std::uint16_t due = 0;
    for (std::uint32_t at = 0; at < given_ && due == 0; ++at) {
      if (!lives_[at].executed && lives_[at].event.self.agent == agent.index) {
        due = lives_[at].event.site;
      }
    }
    const std::uint16_t site = execution_->record(agent.id).last_site;
    sets_.leave_out({agent.label, site, due != 0 ? due : site});
    abandon();
  }
}

// An event that nothing can change: each option but the first is a graph of its own. Whether it is
// asked for, the graph has to decide, not the order in which it is run.
std::uint32_t Walk::choose_option(std::uint32_t options) {
  AgentState& agent = current();
  if (abandoned_) return 0;
  const Name self{agent.index, agent.nth};
  const std::uint32_t given = find(self, piece_, false);
  std::uint32_t option = 0;
  Live live;
  if (given != kNone) {
    live = lives_[given];
    option = live.event.from.nth - kFirstOption.nth;
    if (live.event.cell != kLanes || option >= options) {
      diverge(execution_->record(current_).last_site);
      return 0;
    }
  } else {
    live.event.self = self;
    live.event.piece = static_cast<std::uint16_t>(piece_);
    live.event.cell = kLanes;
    live.event.from = kFirstOption;
    for (std::uint32_t k = 1; k < options; ++k) {
      Graph g = graph();
      g.push_back(live.event);
      g.back().from.nth += k;
      follow(std::move(g));
    }
  }
  agent.past.add(self);
  live.past = agent.past;
  keep(given, std::move(live));
  ++piece_;
  return option;
}

}  // namespace ringfence::check

// Lanes of a warp: which of them go first.
//
// A run steps a warp as one thread, so all that its lanes did before is in the past of what one of
// them does next. Beside that past each lane has one of its own: what it did itself, what it read,
// what barriers and exchanges gave it. Where a revisit is passed over only because of the first, an
// order of the lanes is left out that could be told apart; from then on the parts that a warp may
// go on with are a choice of the graph, as what a read returns is, and never revisited.

#include <algorithm>
#include <optional>

#include "emulator/check/walk.hpp"

namespace ringfence::check {

using machine::ThreadId;
using schedule::AgentId;
using schedule::kNoAgent;

namespace {

// The key of a warp among the cells of Sets.
CellKey key_of(std::uint64_t label) { return {kLanes.region, label, 2}; }

}  // namespace

bool Sets::orders_lanes(std::uint64_t label) const {
  const std::lock_guard lock(mutex_);
  return ordered_.contains(key_of(label));
}

bool Sets::order_lanes(std::uint64_t label) {
  const std::lock_guard lock(mutex_);
  const bool fresh = ordered_.insert(key_of(label)).second;
  if (fresh) ++generation_;
  return fresh;
}

void Sets::leave_out(const LeftOut& order) {
  const std::lock_guard lock(mutex_);
  left_out_.insert(order);
}

std::vector<LeftOut> Sets::left_out() const {
  const std::lock_guard lock(mutex_);
  return {left_out_.begin(), left_out_.end()};
}

Walk::Lane& Walk::lane(AgentId agent, ThreadId thread) {
  const auto [at, fresh] = lane_of_.emplace(thread, static_cast<std::uint32_t>(lanes_.size()));
  if (fresh) lanes_.push_back({{}, 0, agent});
  Lane& l = lanes_[at->second];
  // The machine's thread serves one launch of its stream after another: in each it is a new agent's
  // lane, behind all that the launch is behind.
  const bool next =
      l.agent != agent && execution_->record(l.agent).status == schedule::AgentStatus::done;
  if (fresh || next) {
    l.agent = agent;
    l.past.join(agents_[agent].base);
    if (lanes_of_.size() <= agent) lanes_of_.resize(agent + 1);
    lanes_of_[agent].push_back(at->second);
  }
  return l;
}

// The next event of the lane, in its own past.
Name Walk::lane_step(ThreadId thread) {
  Lane& l = lane(current_, thread);
  const Name name{static_cast<std::uint32_t>(&l - lanes_.data()), l.nth++};
  l.past.add(name);
  return name;
}

void Walk::join_lanes(AgentId agent, const Prefix& past) {
  agents_[agent].base.join(past);
  if (lanes_of_.size() <= agent) return;
  for (const std::uint32_t l : lanes_of_[agent]) lanes_[l].past.join(past);
}

Prefix Walk::lanes_past(AgentId agent) const {
  Prefix all = agents_[agent].base;
  if (lanes_of_.size() <= agent) return all;
  for (const std::uint32_t l : lanes_of_[agent]) all.join(lanes_[l].past);
  return all;
}

void Walk::on_lanes_arrive(AgentId id, std::span<const ThreadId> lanes, const void* barrier) {
  // A host has none: what it knows it hands on to the lanes of its launches.
  if (execution_->record(id).thread == machine::kNoThread) {
    lane_arrivals_[barrier].join(lanes_past(id));
  }
  Prefix& arrivals = lane_arrivals_[barrier];
  Prefix last;  // that has been joined
  for (const ThreadId thread : lanes) {
    const Prefix& past = lane(id, thread).past;
    if (last.shares(past)) continue;
    arrivals.join(past);
    last = past;
  }
}

void Walk::on_lanes_leave(AgentId id, std::span<const ThreadId> lanes, const void* barrier) {
  const auto at = lane_arrivals_.find(barrier);
  if (at == lane_arrivals_.end()) return;
  if (execution_->record(id).thread == machine::kNoThread) join_lanes(id, at->second);
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
                    const Prefix& lane_past, const Live& event) {
  if (!event.executed || event.lane == kUnknown || !past.has(event.event.self) ||
      lane_past.has(event.lane)) {
    return false;
  }
  // Of each warp: the last event in the lane's past, and the first one that is not.
  struct Found {
    std::optional<std::uint32_t> in, out;
    bool elsewhere = false;  // one behind `event` is of another instruction, or of the same step
  };
  std::vector<Found> found(id_of_.size());
  for (const Live& l : lives_) {
    if (!l.executed || l.lane == kUnknown || !past.has(l.event.self)) continue;
    const Name& self = l.event.self;
    Found& f = found[self.agent];
    if (!lane_past.has(l.lane)) {
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
      sets_.leave_out({label, event.access.site, site});
    } else if (sets_.order_lanes(label)) {
      fresh = true;
    }
  }
  if (fresh) abandon();
  return fresh;
}

std::uint32_t Walk::choose_lanes(std::uint32_t options) {
  return sets_.orders_lanes(current().label) ? choose_option(options) : 0;
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
      abandon();
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

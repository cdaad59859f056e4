// fence.sc: which graphs follow from one, and the orders of those of a warp's lanes.

#include <algorithm>

#include "emulator/check/walk.hpp"
#include "emulator/schedule/interrupt.hpp"

namespace ringfence::check {
namespace {

constexpr int kMostOrdered = 4;  // lanes at one instruction: as many as KernelRun asks of

}  // namespace

bool Walk::strong_fences(const Live& a, const Live& b) const {
  if (a.event.self.agent == b.event.self.agent) return true;
  const auto& machine = execution_->machine();
  const auto& x = machine.placement(a.thread);
  const auto& y = machine.placement(b.thread);
  return machine::reaches(a.access.scope, x, y) && machine::reaches(b.access.scope, y, x);
}

// The graphs in which earlier fences come after this one in fence-sc order: any set of them that is
// closed upwards.
void Walk::offer_fences(const Live& fence) {
  std::vector<std::uint32_t> others;
  for (std::uint32_t i = 0; i < lives_.size(); ++i) {
    const Live& x = lives_[i];
    if (x.event.cell == kFences && !fence.past.has(x.event.self) && strong_fences(fence, x)) {
      others.push_back(i);
    }
  }
  // By each: those that come behind it.
  const std::size_t n = others.size();
  std::vector<std::vector<std::size_t>> behind(n);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = a + 1; b < n; ++b) {
      const Live &x = lives_[others[a]], &y = lives_[others[b]];
      if (!strong_fences(x, y)) continue;
      const bool swap = overtakes(y.event, x.event);
      behind[swap ? b : a].push_back(swap ? a : b);
    }
  }
  // Last ones first, so that of each it is known whether those behind it are in the set.
  std::vector<std::size_t> order;
  std::vector<bool> placed(n, false);
  for (std::size_t found = 0; order.size() < n; found = order.size()) {
    for (std::size_t a = 0; a < n; ++a) {
      const bool due = !placed[a] && std::all_of(behind[a].begin(), behind[a].end(),
                                                 [&](std::size_t b) { return placed[b]; });
      if (!due) continue;
      placed[a] = true;
      order.push_back(a);
    }
    if (order.size() == found) return abandon();  // a cycle: not consistent
  }
  std::vector<bool> in(n, false);
  const auto choose = [&](const auto& self, std::size_t at) -> void {
    if (schedule::must_stop()) return;
    if (at < n) {
      const std::size_t a = order[at];
      self(self, at + 1);
      if (std::any_of(behind[a].begin(), behind[a].end(), [&](std::size_t b) { return !in[b]; })) {
        return;
      }
      in[a] = true;
      self(self, at + 1);
      in[a] = false;
      return;
    }
    if (std::none_of(in.begin(), in.end(), [](bool b) { return b; })) return;
    Graph g = graph();
    g.push_back(fence.event);
    for (std::size_t a = 0; a < n; ++a) {
      if (in[a]) g.back().after.push_back(lives_[others[a]].event.self);
    }
    follow(std::move(g));
  };
  choose(choose, 0);
}

// Of a warp's lane: the writes of others that causality does not put before what it does next.
std::vector<std::uint32_t> Walk::unknown_to(machine::ThreadId who) const {
  std::vector<std::uint32_t> out;
  if (current_ >= lanes_of_.size() || lanes_of_[current_].size() < 2) return out;
  for (std::uint32_t at = 0; at < lives_.size(); ++at) {
    const Live& l = lives_[at];
    if (!l.executed || !l.event.write || l.thread == who || l.event.cell == kFences ||
        l.access.of_barrier) {
      continue;
    }
    const machine::Cell* const cell = cell_of(l.event.cell);
    bool known = false;
    for (const machine::Message* m = cell != nullptr ? cell->newest : nullptr; m != nullptr;
         m = m->older) {
      known = known || (!m->initial && name_of(*m) == l.event.self &&
                        execution_->machine().knows(who, m->at.thread, m->at.time));
    }
    if (!known) out.push_back(at);
  }
  return out;
}

void Walk::on_fence_sc(machine::ThreadId who, machine::Scope scope, std::uint16_t site) {
  if (abandoned_) return;
  for (const Live& l : lives_) {
    if (is_wait_of(l.event.cell, l)) return not_a_counter(l.event.cell);
  }
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
  live.access.site = site;
  name_lane(live.event, who, site);
  live.lane = lane_step(who);
  live.lane_carried = lane(current_, who).past;
  live.unknown = unknown_to(who);
  Lane& mine = lane(current_, who);
  mine.fenced.synced.add(live.lane);
  mine.fenced.met.add(live.lane);
  mine.published = mine.fenced.synced;
  fenced_ = fenced_ || lanes_of_[current_].size() > 1;
  if (given == kNone) {
    offer_fences(live);
  }
  keep(given, std::move(live));
  ++piece_;
}

// Whether the thread makes accesses that are events: of others, no value tells where a fence of
// theirs stands. (A race with one of those is between two threads, and each of the thread's fences
// is explored before and behind those of other agents, with those of its warp.)
bool Walk::acts(machine::ThreadId thread) const {
  return std::any_of(lives_.begin(), lives_.end(), [&](const Live& l) {
    return l.executed && l.thread == thread && l.event.cell != kFences && l.event.cell != kLanes &&
           !l.access.of_barrier;
  });
}

// Otherwise than by memory, and by the order of fences.
bool Walk::is_behind(const Live& l, const Live& fence) const {
  const bool engine = l.event.thread == Event::kNoThread;
  if (l.lane != kUnknown && !engine) return l.fenced.met.has(fence.lane);
  return fence.at < l.at && l.past.has(fence.event.self);
}

// What is behind the later one of two fences of a warp and, were it not for their order, not behind
// the earlier one, or hands on what is not: all else that is behind the later one either is behind
// one of these, or knows what the earlier one knew anyway.
std::vector<const Walk::Live*> Walk::carriers(const Live& earlier, const Live& later) const {
  std::vector<const Live*> out;
  for (const Live& l : lives_) {
    if (!l.executed || l.event.cell == kLanes) continue;
    bool carries = false;
    if (l.event.cell == kFences) {
      carries = l.event.self.agent != later.event.self.agent && l.past.has(later.event.self) &&
                strong_fences(l, later) && !strong_fences(l, earlier);
    } else if (is_behind(l, later)) {
      const bool all = machine::releases(l.access.order) && l.access.scope >= later.access.scope &&
                       !l.access.of_barrier;
      carries = !l.fenced.synced.has(earlier.lane) ||
                (l.event.write && !all && !l.published.has(earlier.lane));
    }
    if (carries) out.push_back(&l);
  }
  return out;
}

// Whether something tells which of two fences of a warp is the later one: an access behind it alone
// of a place that was written before the earlier one. In the other order it might return, or land
// behind, what it cannot in this one.
bool Walk::is_told(const Live& earlier, const Live& later) const {
  if (later.unknown.empty()) return false;
  const std::vector<const Live*> carried = carriers(earlier, later);
  if (carried.empty()) return false;
  const auto is_before = [&](const Live& l) {
    if (l.event.self.agent != earlier.event.self.agent || l.lane == kUnknown) {
      return earlier.past.has(l.event.self);
    }
    return earlier.lane_carried.has(l.lane);
  };
  const auto hears = [&](const Live& l) {
    return std::any_of(carried.begin(), carried.end(), [&](const Live* c) {
      const bool tells = c->event.write || c->access.of_barrier || c->lane == kUnknown;
      if (c == &l) return !l.fenced.synced.has(earlier.lane);
      return tells && c->at <= l.at && l.past.has(c->event.self);
    });
  };
  for (const std::uint32_t at : later.unknown) {
    const Live& write = lives_[at];
    if (!is_before(write)) continue;
    const CellKey& cell = write.event.cell;
    for (const Live& l : lives_) {
      const CellKey& its = l.event.cell;
      if (l.executed && !l.access.of_barrier && its.region == cell.region &&
          its.offset < cell.offset + cell.size && cell.offset < its.offset + its.size && hears(l)) {
        return true;
      }
    }
  }
  return false;
}

// Of lanes at one instruction each order becomes a graph. Otherwise the other one is left out.
void Walk::note_fence_order(const Live& earlier, const Live& later) {
  const std::uint64_t label = names_of_.label(later.event.self.agent);
  const auto together = std::count_if(lives_.begin(), lives_.end(), [&](const Live& l) {
    return l.executed && l.event.cell == kFences && l.event.self == later.event.self;
  });
  if (earlier.event.self != later.event.self || together > kMostOrdered) {
    sets_.leave_out({label, later.access.site, earlier.access.site});
  } else if (sets_.order_fences(label)) {
    abandon();
  }
}

// Fences of two lanes of a warp are in the order in which the run has them, as each step of a warp
// is in the past of its next ones. The other order is one of its own where what is behind them
// tells, or where a fence of somebody else can stand between them, and nothing else orders them.
void Walk::note_fences() {
  std::vector<const Live*> fences;
  for (const Live& l : lives_) {
    if (l.executed && l.event.cell == kFences) fences.push_back(&l);
  }
  const auto of_one = [](const Live& x, const Live& y) {
    return x.event.self.agent == y.event.self.agent;
  };
  for (std::size_t b = 1; b < fences.size(); ++b) {
    const Live& y = *fences[b];
    for (std::size_t a = 0; a < b; ++a) {
      const Live& x = *fences[a];
      if (!of_one(x, y) || x.thread == y.thread || y.lane_carried.has(x.lane)) continue;
      const bool between = std::any_of(fences.begin(), fences.end(), [&](const Live* p) {
        return !of_one(*p, x) && strong_fences(*p, x) && strong_fences(*p, y) &&
               !p->lane_carried.has(x.lane) && !y.lane_carried.has(p->lane);
      });
      if (between && acts(x.thread) && acts(y.thread)) {
        sets_.leave_out({names_of_.label(y.event.self.agent), y.access.site, x.access.site});
      } else if (is_told(x, y)) {
        note_fence_order(x, y);
        if (abandoned_) return;
      }
    }
  }
}

}  // namespace ringfence::check

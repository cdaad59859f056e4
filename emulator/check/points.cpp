// The point of coherence (mode coherent): what a read there returns depends on order of execution,
// also among writes that race, which coherence does not order. Graphs have no place for that order:
// the run makes them in one, and where races are passed over the others are left out.

#include <algorithm>
#include <map>

#include "emulator/check/walk.hpp"

namespace ringfence::check {

bool Walk::is_coherent() const {
  return execution_->machine().policy().boundary == machine::Boundary::coherent;
}

// Two writes of one cell that nothing orders, steps of a barrier apart. Of two lanes of a warp only
// the lanes' own pasts order what they do, unless each order is a graph.
bool Walk::may_come_either_way(const Live& a, const Live& b) const {
  if (a.access.of_barrier ||
      execution_->machine().morally_strong(a.thread, a.access, b.thread, b.access)) {
    return false;
  }
  const std::uint32_t agent = a.event.self.agent;
  if (agent != b.event.self.agent) {
    return !a.past.has(b.event.self) && !b.past.has(a.event.self);
  }
  return a.thread != b.thread && a.lane != kUnknown && b.lane != kUnknown &&
         !a.lane_carried.has(b.lane) && !b.lane_carried.has(a.lane) &&
         !sets_.parts_lanes(names_of_.label(agent));
}

// Whether order of execution has the event before this write, of the same cell, though neither
// program order nor reads-from does.
bool Walk::comes_before(std::uint32_t event, std::uint32_t write) const {
  const Event &a = lives_[event].event, &b = lives_[write].event;
  if (a.self == b.self) return false;
  const auto is_behind = [&](std::uint32_t early) {
    return early < write ? !overtakes(b, lives_[early].event) : overtakes(lives_[early].event, b);
  };
  if (a.write) return (a.cell == kFences || a.pointed || b.pointed) && is_behind(event);
  if (!a.pointed || a.stuck) return false;
  if (a.from == kInitial) return true;
  const std::uint32_t source = find_write(a.from, a.cell);
  return source != kNone && source != write && is_behind(source);
}

// What order of execution has before an event, had the run only what has a smaller stamp and what
// the incoming write needs.
Prefix Walk::order_before(std::uint32_t event, const Incoming& w) const {
  Prefix before = lives_[event].past;
  const auto is_there = [&](std::uint32_t at) {
    const Live& l = lives_[at];
    if (!l.executed || at == event || l.event.self == w.self) return false;
    return at < event || (at < w.limit && w.past.has(l.event.self));
  };
  for (bool more = true; more;) {
    more = false;
    for (const auto& [cell, events] : by_cell_) {
      for (const std::uint32_t write : events) {
        const Event& b = lives_[write].event;
        if (!b.write || !is_there(write) || !before.has(b.self)) continue;
        for (const std::uint32_t at : events) {
          const Live& a = lives_[at];
          if (before.has(a.event.self) || !is_there(at) || !comes_before(at, write)) continue;
          before.join(a.past);
          more = true;
        }
      }
    }
  }
  return before;
}

void Walk::note_unordered() {
  if (!weak_events_ || !is_coherent()) return;
  std::map<CellKey, std::vector<const Live*>> writes;
  for (const Live& l : lives_) {
    if (l.executed && l.event.pointed) writes[l.event.cell];
  }
  for (const Live& l : lives_) {
    if (!l.executed || !l.event.write) continue;
    if (const auto at = writes.find(l.event.cell); at != writes.end()) at->second.push_back(&l);
  }
  for (const auto& [cell, all] : writes) {
    for (std::size_t b = 1; b < all.size(); ++b) {
      for (std::size_t a = 0; a < b; ++a) {
        if (!may_come_either_way(*all[a], *all[b])) continue;
        sets_.leave_out({names_of_.label(all[b]->event.self.agent), all[b]->access.site,
                         all[a]->access.site, LeftOut::What::unordered});
      }
    }
  }
}

}  // namespace ringfence::check

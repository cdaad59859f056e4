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

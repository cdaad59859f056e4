// Accesses of one place in several sizes, where races are passed over.

#include <map>
#include <utility>

#include "emulator/check/walk.hpp"

namespace ringfence::check {

// Accesses of different sizes that overlap are never morally strong (PTX ISA 8.7: complete
// overlap): two that nothing orders race, and a run that goes on past that has made them in one of
// their orders. A revisit would have to change which events there are, as the later of them cuts
// the cell.
void Walk::note_sizes() {
  if (!weak_events_) return;
  std::map<std::pair<machine::RegionId, std::uint64_t>, std::vector<const Live*>> lines;
  for (const Live& l : lives_) {
    const CellKey& cell = l.event.cell;
    if (!l.executed || cell == kFences || cell == kLanes || l.access.of_barrier) continue;
    lines[{cell.region, cell.offset / machine::kLineBytes}].push_back(&l);
  }
  const auto overlap = [](const CellKey& x, const CellKey& y) {
    return x != y && x.offset < y.offset + y.size && y.offset < x.offset + x.size;
  };
  for (const auto& [line, all] : lines) {
    for (std::size_t b = 1; b < all.size(); ++b) {
      const Live& y = *all[b];
      for (std::size_t a = 0; a < b; ++a) {
        const Live& x = *all[a];
        if (!overlap(x.event.cell, y.event.cell) || !(x.event.write || y.event.write) ||
            x.event.self.agent == y.event.self.agent || y.past.has(x.event.self) ||
            x.past.has(y.event.self)) {
          continue;
        }
        sets_.leave_out({names_of_.label(x.event.self.agent), x.access.site, y.access.site,
                         LeftOut::What::resized});
      }
    }
  }
}

}  // namespace ringfence::check

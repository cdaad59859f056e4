#pragma once
// Internal to the machine: walking the cells of a span of bytes.

#include <algorithm>

#include "emulator/machine/state.hpp"

namespace ringfence::machine {

// Calls f(cell, offset in the span, mask of the cell's bytes in the span) for each cell of the
// span, splitting cells that it covers in part, unless `may_share`: then the mask tells which
// bytes. f returns false to have the cell split into elements and be called again on the pieces.
template <class F>
void MachineState::for_cells(RegionId id, std::uint64_t offset, std::uint64_t bytes,
                             std::uint32_t element, bool may_share, F&& f) {
  Region& region = *regions_[id];
  const std::uint64_t end = offset + bytes;
  for (std::uint64_t at = offset; at < end;) {
    const auto index = static_cast<std::uint32_t>(at / kLineBytes);
    const auto from = static_cast<std::uint32_t>(at % kLineBytes);
    const auto to = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(kLineBytes, end - std::uint64_t{index} * kLineBytes));
    Line& line = touch(region, index,
                       may_share || to - from == kLineBytes
                           ? kLineBytes
                           : std::min<std::uint32_t>(element, kLineBytes / 2));
    for (std::uint32_t o = from; o < to;) {
      Cell* cell = line.parts == nullptr ? &line.whole : &part_at(region, line, o);
      const std::uint32_t first = std::max<std::uint32_t>(o, cell->offset);
      const std::uint32_t last = std::min<std::uint32_t>(to, cell->offset + cell->size);
      const bool partial = last - first != cell->size;
      if (partial && !may_share) {
        split(region, line, *cell, std::min<std::uint32_t>(element, cell->size / 2));
        continue;
      }
      const auto mask =
          static_cast<std::uint16_t>(((1u << (last - first)) - 1) << (first - cell->offset));
      const std::uint64_t in_span = std::uint64_t{index} * kLineBytes + first - offset;
      if (!f(*cell, in_span, mask)) {
        split(region, line, *cell, std::min<std::uint32_t>(element, cell->size / 2));
        continue;
      }
      o = last;
    }
    at = std::uint64_t{index} * kLineBytes + to;
  }
}

}  // namespace ringfence::machine

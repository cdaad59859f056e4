#pragma once
// Load buffering: which reads of a run return writes that are still to come, and their values.

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/check/graph.hpp"

namespace ringfence::check {

// An access by the thread's label and how many accesses of that label came before it; unlike
// Name::nth this counts the accesses that the search does not explore.
struct Place {
  std::uint64_t label = 0;
  std::uint32_t nth = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

// The read is to return `value`, which the write will turn out to have written.
struct Foreseen {
  Place read;
  CellKey cell;
  Place write;
  std::uint64_t value = 0;
  bool writes = false;  // the read is a read-modify-write's, as far as was seen
  friend auto operator<=>(const Foreseen&, const Foreseen&) = default;
};

// Sorted, one for a read and cell.
using Foresight = std::vector<Foreseen>;

// Of an access that is about to be made. Without a cell: of any.
const Foreseen* find(const Foresight& foresight, const Place& read,
                     const std::optional<CellKey>& cell);

}  // namespace ringfence::check

#pragma once
// Who waits for whom in a deadlock.

#include <string>
#include <vector>

#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

struct StuckRow {
  StuckNames names;
  bool waits_for_slot = false;  // else for its block's other threads
  bool on_cycle = false;        // its block waits, over others, for itself
  std::string which;  // what the one that should write does: "waits for ...", "does not wait"
};

// Waits for slots first: threads at a block barrier wait for those.
std::vector<StuckRow> stuck_rows(const std::vector<StuckNames>& stuck);

}  // namespace ringfence::trace

#pragma once
// A failing run beside one that passes: what is the same step in both, and how it differs.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulator/machine/event.hpp"
#include "emulator/trace/graph.hpp"

namespace ringfence::trace {

struct BesideRow {
  EventIndex here = kNoEvent;   // in the failing run
  EventIndex there = kNoEvent;  // in the other one; kNoEvent: it has no such step
  // "value", "writer" (a read took another write), "order" (it comes before a row above),
  // "missing".
  std::vector<std::string> differs;
};

// Events that stand at one place in both runs: the n-th by which an agent came to an instruction
// and an address.
class Beside {
 public:
  Beside(std::span<const machine::Event> here, std::span<const machine::Event> there);

  // The event of the other run; kNoEvent if there is none.
  EventIndex counterpart(EventIndex here) const { return there_of_[here]; }
  // The first step of which the runs differ: in its agent, its place or its value; kNoEvent: one is
  // the beginning of the other.
  EventIndex first_difference() const;
  // Of these events, ascending.
  std::vector<BesideRow> rows(std::span<const std::size_t> events) const;

 private:
  std::span<const machine::Event> here_, there_;
  std::vector<EventIndex> there_of_;
  std::vector<EventIndex> source_here_, source_there_;
};

}  // namespace ringfence::trace

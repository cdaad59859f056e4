#pragma once
// What the exports share. Internal to emulator/trace.

#include <string>
#include <vector>

#include "emulator/schedule/program.hpp"
#include "emulator/trace/graph.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

// The last `most` events that order others or are at fault.
std::vector<EventIndex> events_to_show(const Trace& trace, std::span<const machine::Event> events,
                                       std::size_t most);
bool at_fault(const Trace& trace, const machine::Event& event);
// "end barrier put release.sys: pad of rank 1, block 0, from rank 0: 0 -> 1"
std::string event_text(const machine::Event& event, const schedule::Program& program);

}  // namespace ringfence::trace

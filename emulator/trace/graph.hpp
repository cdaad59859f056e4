#pragma once
// A recorded run as a graph of its events: who read from whom, and what orders what.
//
// The order is base causality (PTX ISA, "Memory Consistency Model", 8.9.2) as far as the events
// tell: program order, launches of a stream, bar.sync, edges of a task graph, and
// release patterns that acquire patterns take in. It is built from the events alone, for pictures;
// the machine's clocks decide.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "emulator/machine/event.hpp"
#include "emulator/machine/policy.hpp"

namespace ringfence::trace {

using EventIndex = std::uint32_t;
inline constexpr EventIndex kNoEvent = ~EventIndex{0};

// Where an agent's launch stands on its rank's stream; equal for all agents of one launch.
struct LaunchKey {
  std::uint16_t rank, call;
  std::uint8_t phase;  // 0 the product, 1 the protocol, 2 the consumer
  friend auto operator<=>(const LaunchKey&, const LaunchKey&) = default;
};
LaunchKey launch_of(std::uint64_t label);

struct Graph {
  std::vector<EventIndex> previous;  // by event: the one before it in its thread, or none
  std::vector<EventIndex> source;    // by event: the write it read, none for initial content
  using Edge = std::pair<EventIndex, EventIndex>;
  // Ascending by their second.
  std::vector<Edge> synchronises;  // first operation of a release pattern -> last of an acquire's
  std::vector<Edge> depends;       // last event of an operation -> the dependency of a later one
};

Graph make_graph(std::span<const machine::Event> events, const machine::Policy& policy);

// Launches of one call are ordered where they are of one stream, which a launch's events have as
// their value (from 1 on).
//
// The events that happen before `of`, ascending, itself left out.
std::vector<EventIndex> past(std::span<const machine::Event> events, const Graph& graph,
                             EventIndex of);

}  // namespace ringfence::trace

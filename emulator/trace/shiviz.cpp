#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "emulator/schedule/label.hpp"
#include "emulator/trace/export_events.hpp"
#include "emulator/trace/exports.hpp"

namespace ringfence::trace {

namespace {

using machine::Event;
using Clock = std::map<std::uint64_t, std::uint32_t>;  // by agent: how many of its lines are known

void join(Clock& to, const Clock& from) {
  for (const auto& [agent, count] : from) {
    auto& mine = to[agent];
    mine = std::max(mine, count);
  }
}

}  // namespace

std::string shiviz_log(const Trace& trace, const schedule::Outcome& outcome,
                       const schedule::Program& program) {
  const std::span<const Event> events(outcome.history);
  const Graph graph = make_graph(events, trace.header.policy);
  const auto shown = events_to_show(trace, events, 2000);

  // Clocks that later events take in are kept at the ends of the edges alone.
  std::unordered_map<EventIndex, Clock> kept;
  std::multimap<EventIndex, EventIndex> edges;
  for (const auto* list : {&graph.synchronises, &graph.depends}) {
    for (const auto& [from, to] : *list) {
      kept.try_emplace(from);
      edges.emplace(to, from);
    }
  }
  std::string out = std::string(kShivizPattern) + "\n\n";
  std::unordered_map<std::uint64_t, Clock> clocks;
  std::map<LaunchKey, Clock> launches;  // what all events of a launch know so far
  std::size_t next = 0;
  for (EventIndex i = 0; i < events.size();) {
    // The threads of one block barrier have one step, and know the same after it.
    EventIndex end = i + 1;
    if (events[i].kind == Event::Kind::barrier) {
      while (end < events.size() && events[end].kind == Event::Kind::barrier &&
             events[end].step == events[i].step) {
        ++end;
      }
    }
    // Each knows what the others did before it, not that they came.
    std::vector<bool> told;
    Clock met;
    for (EventIndex k = i; k < end; ++k) {
      Clock& mine = clocks[events[k].label];
      if (graph.previous[k] == kNoEvent) {
        const LaunchKey launch = launch_of(events[k].label);
        for (const auto& [key, known] : launches) {
          if (key.rank == launch.rank && key < launch) join(mine, known);
        }
      }
      for (auto [e, last] = edges.equal_range(k); e != last; ++e) join(mine, kept[e->second]);
      while (next < shown.size() && shown[next] < k) ++next;
      told.push_back(next < shown.size() && shown[next] == k);
      join(met, mine);
    }
    for (EventIndex k = i; k < end; ++k) {
      Clock& mine = clocks[events[k].label];
      if (end - i > 1) mine = met;
      if (told[k - i]) ++mine[events[k].label];
      if (auto it = kept.find(k); it != kept.end()) it->second = mine;
      join(launches[launch_of(events[k].label)], mine);
      if (!told[k - i]) continue;
      std::string clock;
      for (const auto& [agent, count] : mine) {
        if (count == 0) continue;
        clock += fmt::format("{}\"{}\":{}", clock.empty() ? "" : ",",
                             schedule::text(schedule::unpack(agent)), count);
      }
      out += fmt::format("{} {{{}}}\nstep {}: {}{}\n",
                         schedule::text(schedule::unpack(events[k].label)), clock, events[k].step,
                         at_fault(trace, events[k]) ? "FINDING: " : "",
                         event_text(events[k], program));
    }
    i = end;
  }
  return out;
}

}  // namespace ringfence::trace

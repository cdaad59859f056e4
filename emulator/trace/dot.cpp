#include <fmt/format.h>

#include <map>
#include <set>

#include "emulator/schedule/label.hpp"
#include "emulator/trace/export_events.hpp"
#include "emulator/trace/exports.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::trace {

namespace {

using machine::Event;

std::string label_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string edge(EventIndex from, EventIndex to, const char* kind, const char* color) {
  return fmt::format("  e{} -> e{} [label=\"{}\", color=\"{}\", fontcolor=\"{}\"];\n", from, to,
                     kind, color, color);
}

}  // namespace

std::string dot_graph(const Trace& trace, const schedule::Outcome& outcome,
                      const schedule::Program& program) {
  const std::span<const Event> events(outcome.history);
  const Graph graph = make_graph(events, trace.header.policy);
  const auto shown = events_to_show(trace, events, 300);
  const std::set<EventIndex> in(shown.begin(), shown.end());

  std::string out = fmt::format(
      "digraph run {{\n  label={};\n  labelloc=t;\n  rankdir=TB;\n  node [shape=box, fontsize=10, "
      "fontname=\"sans-serif\"];\n  edge [fontsize=9, fontname=\"sans-serif\"];\n",
      label_text(trace.verdict.message + "\n" + case_text(trace.header.config)));
  std::map<std::uint64_t, std::vector<EventIndex>> by_agent;
  for (const EventIndex i : shown) by_agent[events[i].label].push_back(i);
  int cluster = 0;
  for (const auto& [label, list] : by_agent) {
    out += fmt::format("  subgraph cluster_{} {{\n    label={};\n    color=\"gray60\";\n",
                       cluster++, label_text(schedule::text(schedule::unpack(label))));
    for (const EventIndex i : list) {
      out += fmt::format(
          "    e{} [label={}{}];\n", i,
          label_text(fmt::format("{}  {}", events[i].step, event_text(events[i], program))),
          at_fault(trace, events[i]) ? ", color=\"red\", penwidth=2" : "");
    }
    for (std::size_t k = 0; k + 1 < list.size(); ++k) {
      out += fmt::format("    e{} -> e{} [style=dotted];\n", list[k], list[k + 1]);
    }
    out += "  }\n";
  }

  // Coherence as far as the events tell: writes land last, but for those that say otherwise.
  std::map<std::pair<machine::RegionId, std::uint64_t>, EventIndex> newest;
  std::map<EventIndex, EventIndex> after;  // the next write in coherence order
  for (const EventIndex i : shown) {
    const Event& e = events[i];
    const bool writes = e.kind == Event::Kind::write || e.kind == Event::Kind::rmw;
    if (!writes || (e.kind == Event::Kind::write && e.stale)) continue;
    const std::pair at{e.address.region, e.address.offset};
    if (const auto it = newest.find(at); it != newest.end()) {
      after[it->second] = i;
      out += edge(it->second, i, "co", "gray50");
    }
    newest[at] = i;
  }
  for (const EventIndex i : shown) {
    const EventIndex from = graph.source[i];
    if (from == kNoEvent || !in.contains(from)) continue;
    out += edge(from, i, "rf", "darkgreen");
    if (const auto it = after.find(from); it != after.end() && it->second != i) {
      out += edge(i, it->second, "fr", "darkorange");
    }
  }
  for (const auto& [from, to] : graph.synchronises) {
    if (in.contains(from) && in.contains(to)) out += edge(from, to, "sync", "blue");
  }
  return out + "}\n";
}

}  // namespace ringfence::trace

#include "emulator/trace/export_events.hpp"

#include <fmt/format.h>

#include "emulator/machine/names.hpp"
#include "emulator/trace/verdict.hpp"

namespace ringfence::trace {

using machine::Event;

bool at_fault(const Trace& trace, const Event& e) {
  if (!trace.verdict.finding || !machine::is_access(e.kind)) return false;
  const machine::Finding& f = *trace.verdict.finding;
  return (f.has_first && e.step == f.first.step && e.label == f.first.label) ||
         (f.has_second && e.step == f.second.step && e.label == f.second.label);
}

std::vector<EventIndex> events_to_show(const Trace& trace, std::span<const Event> events,
                                       std::size_t most) {
  std::vector<EventIndex> out;
  for (EventIndex i = 0; i < events.size(); ++i) {
    const Event& e = events[i];
    if (!machine::is_step(e.kind)) continue;
    const bool orders = !machine::is_access(e.kind) || machine::is_strong(e.order);
    if (orders || at_fault(trace, e)) out.push_back(i);
  }
  if (out.size() > most) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(most));
  return out;
}

std::string event_text(const Event& e, const schedule::Program& program) {
  std::string line = program.site_name(e.site);
  if (const std::size_t colon = line.find(": "); colon != std::string::npos) {
    line.erase(0, colon + 2);
  }
  switch (e.kind) {
    case Event::Kind::fence:
      return fmt::format("fence.{}.{}", e.value == 1 ? "sc" : machine::name(e.order),
                         machine::name(e.scope));
    case Event::Kind::barrier:
      return "bar.sync";
    case Event::Kind::rmw:
      return fmt::format("{}: {}: {} -> {}", line, place(e.address, program), e.old_value, e.value);
    case Event::Kind::write:
      return fmt::format("{}: {} = {}", line, place(e.address, program), e.value);
    default:
      return fmt::format("{}: {}: {}", line, place(e.address, program), e.value);
  }
}

}  // namespace ringfence::trace

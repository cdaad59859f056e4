#include "emulator/trace/history.hpp"

#include <algorithm>

namespace ringfence::trace {

using machine::Event;

Team team_of(std::uint64_t label) {
  const schedule::AgentLabel l = schedule::unpack(label);
  return {l.rank, l.call, l.group, l.role, l.block};
}

LaunchNumber number_of(std::uint64_t label) {
  const schedule::AgentLabel l = schedule::unpack(label);
  const int phase = l.role == schedule::Role::product    ? 0
                    : l.role == schedule::Role::consumer ? 2
                                                         : 1;
  return {l.call, phase, l.group};
}

History::History(std::span<const Event> events, const machine::Policy& policy)
    : events_(events), graph_(make_graph(events, policy)) {
  for (EventIndex i = 0; i < events.size(); ++i) {
    if (machine::is_step(events[i].kind)) at_step_[events[i].step].push_back(i);
  }
}

EventIndex History::find(const machine::AccessInfo& a) const {
  const auto at = at_step_.find(a.step);
  if (at == at_step_.end() || a.step == 0) return kNoEvent;
  EventIndex same = kNoEvent;
  for (const EventIndex i : at->second) {
    if (events_[i].label != a.label) continue;
    if (covers(events_[i], a.region, a.offset)) return i;
    // A finding places both accesses where the greater one begins.
    if (same == kNoEvent) same = i;
  }
  return same;
}

std::vector<bool> History::before(EventIndex of) const {
  std::vector<bool> in(events_.size());
  for (const EventIndex i : past(events_, graph_, of)) in[i] = true;
  return in;
}

std::vector<EventIndex> History::writes_of(std::uint32_t region, std::uint64_t offset) const {
  std::vector<EventIndex> out;
  for (EventIndex i = 0; i < events_.size(); ++i) {
    if (is_write(events_[i]) && covers(events_[i], region, offset)) out.push_back(i);
  }
  return out;
}

bool History::looks_again(EventIndex i) const {
  const Event& e = events_[i];
  for (EventIndex j = i + 1; j < events_.size(); ++j) {
    const Event& f = events_[j];
    if (f.label == e.label && f.site == e.site && f.address.region == e.address.region &&
        f.address.offset == e.address.offset)
      return true;
  }
  return false;
}

}  // namespace ringfence::trace

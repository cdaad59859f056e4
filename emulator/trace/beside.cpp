#include "emulator/trace/beside.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace ringfence::trace {
namespace {

using machine::Event;

// What makes an event the same in both runs, but for how often it came before.
using Key = std::tuple<std::uint64_t, std::uint16_t, int, std::uint32_t, std::uint64_t>;

Key key_of(const Event& e) {
  const bool placed = machine::is_access(e.kind);
  // A swap that finds another value is the same attempt.
  const auto kind = e.kind == Event::Kind::failed_cas ? Event::Kind::rmw : e.kind;
  return {e.label, e.site, static_cast<int>(kind), placed ? e.address.region : 0,
          placed ? e.address.offset : 0};
}

std::vector<std::uint32_t> numbers(std::span<const Event> events) {
  std::map<Key, std::uint32_t> seen;
  std::vector<std::uint32_t> out;
  out.reserve(events.size());
  for (const Event& e : events) out.push_back(seen[key_of(e)]++);
  return out;
}

// The write that each read took, by its step: as far as one write has that step.
std::vector<EventIndex> sources(std::span<const Event> events) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>, EventIndex> writes;
  std::vector<EventIndex> out(events.size(), kNoEvent);
  for (EventIndex i = 0; i < events.size(); ++i) {
    const Event& e = events[i];
    if (!machine::is_access(e.kind)) continue;
    if (e.kind != Event::Kind::write && e.from_step != 0) {
      const auto at = writes.find({e.from_step, e.address.region, e.address.offset});
      if (at != writes.end()) out[i] = at->second;
    }
    if (e.kind == Event::Kind::write || e.kind == Event::Kind::rmw) {
      writes[{e.step, e.address.region, e.address.offset}] = i;
    }
  }
  return out;
}

bool reads(const Event& e) { return machine::is_access(e.kind) && e.kind != Event::Kind::write; }

}  // namespace

Beside::Beside(std::span<const Event> here, std::span<const Event> there)
    : here_(here),
      there_(there),
      there_of_(here.size(), kNoEvent),
      source_here_(sources(here)),
      source_there_(sources(there)) {
  std::map<std::pair<Key, std::uint32_t>, EventIndex> by_place;
  const std::vector<std::uint32_t> n_there = numbers(there), n_here = numbers(here);
  for (EventIndex i = 0; i < there.size(); ++i) by_place[{key_of(there[i]), n_there[i]}] = i;
  for (EventIndex i = 0; i < here.size(); ++i) {
    const auto at = by_place.find({key_of(here[i]), n_here[i]});
    if (at != by_place.end()) there_of_[i] = at->second;
  }
}

EventIndex Beside::first_difference() const {
  const std::size_t both = std::min(here_.size(), there_.size());
  for (EventIndex i = 0; i < both; ++i) {
    if (key_of(here_[i]) != key_of(there_[i]) || here_[i].kind != there_[i].kind ||
        here_[i].value != there_[i].value) {
      return i;
    }
  }
  return kNoEvent;
}

std::vector<BesideRow> Beside::rows(std::span<const std::size_t> events) const {
  std::vector<BesideRow> out;
  EventIndex latest = 0;
  bool any = false;
  for (const std::size_t i : events) {
    BesideRow row{static_cast<EventIndex>(i), there_of_[i], {}};
    if (row.there == kNoEvent) {
      row.differs.emplace_back("missing");
      out.push_back(std::move(row));
      continue;
    }
    const Event &a = here_[i], &b = there_[row.there];
    if (a.kind != b.kind || a.value != b.value) row.differs.emplace_back("value");
    if (reads(a)) {
      const EventIndex from = source_here_[i], other = source_there_[row.there];
      const bool same = from == kNoEvent || other == kNoEvent
                            ? (a.from_step == 0) == (b.from_step == 0)
                            : there_of_[from] == other;
      if (!same) row.differs.emplace_back("writer");
    }
    if (any && row.there < latest) row.differs.emplace_back("order");
    latest = std::max(latest, row.there);
    any = true;
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace ringfence::trace

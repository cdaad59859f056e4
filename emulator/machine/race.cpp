// Races: conflicting accesses that are neither morally strong nor ordered by causality, and what
// is missing between them (PTX ISA 8.7.1, "Conflict and Data-races").

#include <algorithm>
#include <cstring>

#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

AccessInfo MachineState::info(const Now& now) const {
  const Access& a = *now.access;
  return AccessInfo{now.kind,
                    a.order,
                    a.scope,
                    a.proxy,
                    label_of(Epoch{now.id, now.thread->slot, now.thread->time}),
                    now.step,
                    a.site,
                    now.address.region,
                    now.address.offset,
                    operation_bytes(a)};
}

AccessInfo MachineState::info(const Epoch& at, AccessKind kind, Order order, Scope scope,
                              Proxy proxy, std::uint16_t site, std::uint32_t step, const Now& where,
                              std::uint32_t bytes) const {
  return AccessInfo{kind,
                    order,
                    scope,
                    proxy,
                    label_of(at),
                    step,
                    site,
                    where.address.region,
                    where.address.offset,
                    bytes};
}

// The access must be ordered after each conflicting access that has already been made. Both orders
// of a racing pair are possible runs, so the pair is found in whichever order it comes.
MachineState::RaceWith MachineState::race_with(const Now& now, const Cell& cell,
                                               MessageSet known_set) const {
  for (const Message* m = cell.newest; m != nullptr && (cell.ids & ~known_set) != 0; m = m->older) {
    if (races(now, *m, known_set)) return {m, nullptr};
  }
  if (now.kind == AccessKind::read) return {};
  for (const Reader* r = cell.readers; r != nullptr; r = r->next) {
    if (races(now, *r)) return {nullptr, r};
  }
  return {};
}

// ld.global.nc is for data that nobody changes while the kernel runs (PTX ISA 8.1, and the
// instruction's text): what was written before its launch began, and is written again after its
// end.
bool MachineState::there_before_launch(const Now& now, const Message& m) const {
  return m.initial || streams_[now.thread->stream]->next.seen.covers(m.at);
}

bool MachineState::launch_over(const Now& now, const Epoch& at) const {
  const Slot& slot = *slots_[at.slot];
  const auto end =
      std::upper_bound(slot.ends.begin(), slot.ends.end(), at.time,
                       [](std::uint32_t time, const SlotEnd& e) { return time < e.time; });
  if (end == slot.ends.end()) return false;
  const Stream& s = *streams_[slot.stream];
  return now.thread->view.seen.covers(Epoch{s.marker, s.marker_slot, end->boundary});
}

bool MachineState::nc_alike(const Now& now, const Cell& cell) const {
  if (kind_of(now.access->proxy) == ProxyKind::readonly) {
    for (const Message* m = cell.newest; m != nullptr; m = m->older) {
      if (!there_before_launch(now, *m)) return false;
    }
  }
  for (const Reader* r = cell.readers; now.kind != AccessKind::read && r != nullptr; r = r->next) {
    if (kind_of(r->proxy) == ProxyKind::readonly && !launch_over(now, r->at)) return false;
  }
  return true;
}

void MachineState::check_coherent(const Now& now, const Cell& cell) {
  for (const Message* m = cell.newest; m != nullptr; m = m->older) {
    if (there_before_launch(now, *m)) continue;
    return report_incoherent(
        now, info(m->at, m->rmw ? AccessKind::rmw : AccessKind::write, m->order, m->scope, m->proxy,
                  m->site, m->step, now, m->element));
  }
}

void MachineState::report_incoherent(const Now& now, const AccessInfo& other) {
  Finding f;
  f.kind = FindingKind::incoherent_read;
  f.first = other;
  f.second = info(now);
  f.has_first = f.has_second = true;
  report(f);
}

// One that is passed over hides none of the others.
void MachineState::look_for_race(const Now& now, const Cell& cell, MessageSet known_set,
                                 const std::byte* in) {
  for (const Reader* r = cell.readers; now.kind != AccessKind::read && r != nullptr; r = r->next) {
    if (kind_of(r->proxy) != ProxyKind::readonly || launch_over(now, r->at)) continue;
    report_incoherent(now, info(r->at, AccessKind::read, r->order, r->scope, r->proxy, r->site,
                                r->step, now, r->element));
    break;
  }
  for (const Message* m = cell.newest; m != nullptr && (cell.ids & ~known_set) != 0; m = m->older) {
    if (!races(now, *m, known_set)) continue;
    const bool same =
        in != nullptr && !m->initial && std::memcmp(m->value.data(), in, cell.size) == 0;
    if (report_race(now, *m, same)) return;
  }
  if (now.kind == AccessKind::read) return;
  note_unfenced(now, cell);
  for (const Reader* r = cell.readers; r != nullptr; r = r->next) {
    if (races(now, *r) && report_race(now, *r)) return;
  }
}

// PTX ISA 8.6: accesses through two proxies need a proxy fence; AsyncWar is about those of a write
// behind a read.
void MachineState::note_unfenced(const Now& now, const Cell& cell) {
  if (policy_.async_war != AsyncWar::note || kind_of(now.access->proxy) != ProxyKind::async) return;
  for (const Reader* r = cell.readers; r != nullptr; r = r->next) {
    if (kind_of(r->proxy) == ProxyKind::async || !read_in_past(now, *r) ||
        in_past(now, r->at, r->order, r->scope, r->proxy)) {
      continue;
    }
    const std::pair<std::uint16_t, std::uint16_t> both{r->site, now.access->site};
    if (std::find(unfenced_reads_.begin(), unfenced_reads_.end(), both) == unfenced_reads_.end()) {
      unfenced_reads_.push_back(both);
    }
  }
}

// Mode coherent: a pair is no race if the later access is strong at sys scope, the earlier one
// precedes it in observed time, and the earlier was strong at sys scope or a launch boundary of its
// rank lies between the two in observed time.
bool MachineState::excused(const Now& now, const Epoch& earlier, Order order, Scope scope) const {
  if (!goes_to_coherence_point(*now.access)) return false;
  const Clock& observed = now.thread->view.observed;
  if (!observed.covers(earlier)) return false;
  if (is_strong(order) && scope == Scope::sys) return true;
  const Slot& slot = *slots_[earlier.slot];
  const auto end =
      std::upper_bound(slot.ends.begin(), slot.ends.end(), earlier.time,
                       [](std::uint32_t time, const SlotEnd& e) { return time < e.time; });
  if (end == slot.ends.end()) return false;
  const Stream& s = *streams_[slot.stream];
  return observed.covers(Epoch{s.marker, s.marker_slot, end->boundary});
}

Missing MachineState::missing_ingredient(const Now& now, const Epoch& earlier, Order order,
                                         Scope scope, Proxy proxy, std::uint8_t element) const {
  const Access& a = *now.access;
  if (is_strong(a.order) && is_strong(order)) {
    const Placement& there = threads_[earlier.thread]->place;
    if (!reaches(scope, there, now.thread->place)) return Missing::first_scope;
    if (!reaches(a.scope, now.thread->place, there)) return Missing::second_scope;
    if (element != operation_bytes(a)) return Missing::complete_overlap;
    if (kind_of(a.proxy) != kind_of(proxy)) return Missing::one_proxy;
    if (!same_proxy(a.proxy, proxy, true)) return Missing::same_proxy;
  }
  if (kind_of(a.proxy) == ProxyKind::async && in_past(*now.thread, now.id, earlier)) {
    return Missing::proxy_fence;
  }
  if (is_engine(earlier.thread)) return Missing::completion;
  if (now.thread->view.observed.covers(earlier)) return Missing::strength;
  // A parked entry that would have ordered them: met by a strong read whose scope, or whose
  // missing acquire, kept it out.
  for (const Parked& p : now.thread->parked) {
    if (!p.view.seen.covers(earlier) && p.at.thread != earlier.thread) continue;
    const Placement& there = threads_[p.at.thread]->place;
    if (!reaches(p.scope, there, now.thread->place)) return Missing::first_scope;
    return Missing::strength;
  }
  return Missing::synchronisation;
}

bool MachineState::report_race(const Now& now, const Epoch& at, AccessKind kind, Order order,
                               Scope scope, Proxy proxy, std::uint8_t element, std::uint16_t site,
                               std::uint32_t step, bool same_value) {
  Finding f;
  f.kind = FindingKind::data_race;
  f.same_value = same_value;
  f.first = info(at, kind, order, scope, proxy, site, step, now, element);
  f.second = info(now);
  f.has_first = f.has_second = true;
  if (passes_over(f)) {
    ++ignored_races_;
    return false;
  }
  f.missing = missing_ingredient(now, at, order, scope, proxy, element);
  // Not by report(), which would ask again.
  if (findings_.size() < kMaxFindings) findings_.push_back(f);
  return true;
}

bool MachineState::report_race(const Now& now, const Message& m, bool same_value) {
  return report_race(now, m.at, m.rmw ? AccessKind::rmw : AccessKind::write, m.order, m.scope,
                     m.proxy, m.element, m.site, m.step, same_value);
}

bool MachineState::report_race(const Now& now, const Reader& r) {
  return report_race(now, r.at, AccessKind::read, r.order, r.scope, r.proxy, r.element, r.site,
                     r.step);
}

// A signal that nobody waited for successfully, and that a later write takes away without reading
// it; or two read-modify-writes that read the same value, so that one of them is lost.
void MachineState::look_for_lost_signal(const Now& now, const Cell& cell, const Message* source) {
  const Message* lost = nullptr;
  if (source == nullptr) {
    const Message* m = cell.newest;
    const std::byte zero[kLineBytes] = {};
    if (!m->initial && !m->consumed && std::memcmp(m->value.data(), zero, cell.size) != 0) lost = m;
  } else {
    for (const Message* m = cell.newest; m != nullptr && lost == nullptr; m = m->older) {
      if (m->source == source) lost = m;
    }
  }
  if (lost == nullptr) return;
  Finding f;
  f.kind = FindingKind::lost_signal;
  f.first = info(lost->at, lost->rmw ? AccessKind::rmw : AccessKind::write, lost->order,
                 lost->scope, lost->proxy, lost->site, lost->step, now, lost->element);
  f.second = info(now);
  f.has_first = f.has_second = true;
  report(f);
}

}  // namespace ringfence::machine

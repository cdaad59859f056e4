// Fences and block barriers.

#include <algorithm>
#include <vector>

#include "emulator/machine/arbiter.hpp"
#include "emulator/machine/create.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

// What a later strong write of this thread publishes at each scope distance up to `scope`: it
// takes the place of narrower fences before it, which published less to fewer.
void MachineState::snapshot(Thread& t, ThreadId id, Scope scope) {
  const auto at = static_cast<std::uint8_t>(1u << static_cast<int>(scope));
  t.fences_set = static_cast<std::uint8_t>((t.fences_set & ~(at - 1u)) | at);
  t.fences_held |= at;
  FenceView& f = t.fences[static_cast<int>(scope)];
  f.at = Epoch{id, t.slot, t.time};
  f.view = t.view;
  ++t.time;  // what follows the fence is not published by it
}

void MachineState::take_entry(Thread& t, const Epoch& at, const View& view) {
  t.view.join(view);
  add_event(t.view, at);
}

// An acquire pattern by a fence: it takes in what earlier strong reads met, if both ends reach
// each other.
void MachineState::acquire_parked(Thread& t, ThreadId, Scope scope) {
  std::erase_if(t.parked, [&](const Parked& p) {
    const Placement& other = threads_[p.at.thread]->place;
    if (!reaches(scope, t.place, other) || !reaches(p.scope, other, t.place)) return false;
    if (!p.fence && kind_of(p.proxy) != ProxyKind::generic) return false;
    take_entry(t, p.at, p.view);
    return true;
  });
}

void Machine::fence(ThreadId id, Fence kind, Scope scope, std::uint16_t site) {
  Thread& t = *threads_[id];
  ++step_;
  const bool in_order = arbiter_ == nullptr || arbiter_->orders_fence_sc();
  if (kind != Fence::release) acquire_parked(t, id, scope);
  if (arbiter_ != nullptr && kind == Fence::sc && in_order) arbiter_->on_fence_sc(id, scope, site);
  if (kind == Fence::sc && in_order) {
    // Fence-SC order: every earlier morally strong fence.sc precedes this one, pair by pair.
    for (const FenceSc& f : fence_sc_) {
      const Placement& other = threads_[f.at.thread]->place;
      if (f.at.thread == id ||
          (reaches(scope, t.place, other) && reaches(f.scope, other, t.place))) {
        take_entry(t, f.at, f.view);
      }
    }
    if (scope == Scope::sys) {
      // Whoever joins this one joins those: they are no longer needed.
      std::erase_if(fence_sc_, [&](const FenceSc& f) {
        return f.scope == Scope::sys && t.view.seen.covers(f.at);
      });
    }
    fence_sc_.push_back(FenceSc{Epoch{id, t.slot, t.time}, scope, t.view});
    if (trail_ != nullptr) leave_fence_sc(Epoch{id, t.slot, t.time});
  }
  if (kind != Fence::acquire) snapshot(t, id, scope);
  if (listener_ != nullptr) {
    const Order order = kind == Fence::acquire   ? Order::acquire
                        : kind == Fence::release ? Order::release
                                                 : Order::acq_rel;
    const Access access{order, scope, 1, Proxy::generic, false, site};
    const Now now{id, &t, &access, {}, step_, AccessKind::read, 0};
    tell(Event::Kind::fence, now, 0, kind == Fence::sc ? 1 : 0, 0, nullptr, false);
  }
}

void MachineState::bridge(Thread& t, ThreadId id, ProxyFence kind) {
  if (!by_proxy()) return;
  const Epoch at{id, t.slot, t.time};
  Clock seen = t.view.seen;
  add_event(seen, at);
  if (kind == ProxyFence::alias) t.view.bridged = seen;
  if (other_proxies_) bridges_.push_back({at, kind, false, t.place, seen});
  ++t.time;
}

void Machine::proxy_fence(ThreadId id, ProxyFence kind, std::uint16_t site) {
  Thread& t = *threads_[id];
  ++step_;
  bridge(t, id, kind);
  if (listener_ != nullptr) {
    const Access access{Order::acq_rel, Scope::sys, 1, Proxy::generic, false, site};
    const Now now{id, &t, &access, {}, step_, AccessKind::read, 0};
    tell(Event::Kind::fence, now, 0, 2 + static_cast<std::uint64_t>(kind), 0, nullptr, false);
  }
}

Machine::Arrival Machine::arrive(ThreadId id) {
  Thread& t = *threads_[id];
  Arrival n = 0;
  while (n < arrived_.size() && arrived_[n].pending) ++n;
  if (n == arrived_.size()) arrived_.emplace_back();
  arrived_[n] = Arrived{Epoch{id, t.slot, t.time}, t.view, true};
  ++t.time;  // what follows is not known at the barrier
  return n;
}

void Machine::barrier(std::span<const ThreadId> arriving, std::span<const ThreadId> syncing,
                      bool whole_block, std::uint16_t site, std::span<const Arrival> arrivals) {
  const auto went_on = [&](ThreadId id) {
    return std::any_of(arrivals.begin(), arrivals.end(),
                       [&](Arrival n) { return arrived_[n].at.thread == id; });
  };
  ++step_;
  if (arbiter_ != nullptr) arbiter_->on_block_barrier(arriving, syncing);
  // Most threads of a block know the same: joining one of them again costs nothing then.
  View met;
  std::uint32_t time = 0;
  const View* last = nullptr;
  for (ThreadId id : arriving) {
    if (went_on(id)) continue;
    const Thread& t = *threads_[id];
    if (last == nullptr || !last->same_as(t.view)) met.join(t.view);
    last = &t.view;
    time = std::max(time, t.time + 1);
  }
  for (const Arrival n : arrivals) {
    met.join(arrived_[n].view);
    add_event(met, arrived_[n].at);
  }
  if (whole_block && !arriving.empty()) {
    const std::uint32_t slot = threads_[arriving[0]]->slot;
    met.join_slot(slot, time);
    for (ThreadId id : syncing) {
      Thread& t = *threads_[id];
      t.view = met;
      t.time = time;
    }
  } else {
    for (ThreadId id : arriving) {
      if (went_on(id)) continue;
      Thread& t = *threads_[id];
      add_event(met, Epoch{id, t.slot, t.time});
      ++t.time;
    }
    // Whoever arrived knows nothing beyond what is met; others that know the same, know the same
    // afterwards. So threads go on sharing their clocks.
    std::vector<ThreadId> arrived(arriving.begin(), arriving.end());
    std::sort(arrived.begin(), arrived.end());
    View before, after;
    bool known = false;
    for (ThreadId id : syncing) {
      View& view = threads_[id]->view;
      if (std::binary_search(arrived.begin(), arrived.end(), id)) {
        view = met;
      } else if (known && before.same_as(view)) {
        view = after;
      } else {
        before = view;
        view.join(met);
        after = view;
        known = true;
      }
    }
  }
  for (const Arrival n : arrivals) arrived_[n] = Arrived{};
  if (listener_ != nullptr) {
    const Access access{Order::acq_rel, Scope::cta, 1, Proxy::generic, false, site};
    for (ThreadId id : syncing) {
      const Now now{id, threads_[id], &access, {}, step_, AccessKind::read, 0};
      tell(Event::Kind::barrier, now, 0, 0, 0, nullptr, false);
    }
  }
}

Machine::Meeting Machine::open_meeting() {
  if (free_meetings_.empty()) {
    free_meetings_.push_back(static_cast<std::uint32_t>(meetings_.size()));
    meetings_.push_back(create<MeetingState>(memory_, memory_));
  }
  const std::uint32_t at = free_meetings_.back();
  free_meetings_.pop_back();
  meetings_[at]->serial = ++meeting_serial_;
  return std::uint64_t{meeting_serial_} << 32 | at;
}

void Machine::close_meeting(Meeting meeting) {
  MeetingState& m = meeting_at(meeting);
  m.parts.clear();
  free_meetings_.push_back(static_cast<std::uint32_t>(meeting));
}

MachineState::MeetingPart& MachineState::part_of(MeetingState& meeting, const Placement& place,
                                                 Scope scope) {
  for (MeetingPart& p : meeting.parts) {
    if (p.scope == scope && p.place == place) return p;
  }
  return meeting.parts.emplace_back(MeetingPart{place, scope, {}, {}});
}

void Machine::arrive(Meeting meeting, std::span<const ThreadId> threads, Order order, Scope scope) {
  MeetingState& m = meeting_at(meeting);
  // Threads of a warp know the same, mostly: that is joined once.
  const Thread* last = nullptr;
  for (const ThreadId id : threads) {
    Thread& t = *threads_[id];
    if (releases(order)) {
      MeetingPart& part = part_of(m, t.place, scope);
      part.at = Epoch{id, t.slot, t.time};
      const bool joined = last != nullptr && last->place == t.place && last->view.same_as(t.view);
      if (!joined) part.view.join(t.view);
      add_event(part.view, part.at);
      last = &t;
      ++t.time;  // what follows is not known at the meeting
      continue;
    }
    for (int d = 0; d <= kInits; ++d) {
      if ((t.fences_set >> d & 1) == 0) continue;
      const FenceView& f = t.fences[d];
      MeetingPart& part = part_of(m, t.place, std::min(scope, scope_of_fence(d)));
      part.at = f.at;
      part.view.join(f.view);
      add_event(part.view, f.at);
    }
  }
}

void Machine::depart(Meeting meeting, std::span<const ThreadId> threads, std::uint16_t site,
                     Order order, Scope scope) {
  ++step_;
  const MeetingState& m = meeting_at(meeting);
  // Threads of a warp know the same, mostly: they go on sharing their clocks.
  View before, after;
  const Placement* place = nullptr;  // of the thread that `after` is of
  for (const ThreadId id : threads) {
    Thread& t = *threads_[id];
    const bool shares = place != nullptr && *place == t.place && before.same_as(t.view);
    if (!shares) before = t.view;
    bool all = acquires(order);
    for (const MeetingPart& p : m.parts) {
      const bool met = reaches(p.scope, p.place, t.place) && reaches(scope, t.place, p.place);
      if (acquires(order) && met) {
        if (!shares) t.view.join(p.view);
      } else {
        all = false;
        t.parked.push_back(Parked{Address{~RegionId{0}, 0}, p.at, p.scope, p.view});
      }
    }
    if (shares) {
      t.view = after;
      continue;
    }
    after = t.view;
    place = all ? &t.place : nullptr;
  }
  if (listener_ != nullptr) {
    const Access access{order, scope, 1, Proxy::generic, false, site};
    for (const ThreadId id : threads) {
      const Now now{id, threads_[id], &access, {}, step_, AccessKind::read, 0};
      tell(Event::Kind::barrier, now, 0, 0, 0, nullptr, false);
    }
  }
}

}  // namespace ringfence::machine

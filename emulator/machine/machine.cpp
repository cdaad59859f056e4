// Regions, threads, launches, fences and barriers: what makes causality.

#include "emulator/machine/machine.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "emulator/machine/arbiter.hpp"
#include "emulator/machine/cells.hpp"

namespace ringfence::machine {

namespace {

template <class T>
void destroy(std::pmr::memory_resource* memory, T* object) {
  object->~T();
  memory->deallocate(object, sizeof(T), alignof(T));
}

template <class T, class... Args>
T* create(std::pmr::memory_resource* memory, Args&&... args) {
  return ::new (memory->allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
}

// The next of `used` objects kept in `all`, made if none is left over from an earlier run.
template <class T, class... Args>
T* reuse(std::pmr::vector<T*>& all, std::size_t& used, std::pmr::memory_resource* memory,
         Args&&... args) {
  if (used == all.size()) all.push_back(create<T>(memory, std::forward<Args>(args)...));
  return all[used++];
}

}  // namespace

Machine::Machine(std::pmr::memory_resource* memory, const Policy& policy)
    : memory_(memory),
      policy_(policy),
      clocks_(memory),
      messages_(memory),
      entries_(memory),
      observers_(memory),
      readers_(memory),
      watchers_(memory),
      cells_(memory),
      parts_(memory),
      lines_(memory),
      blocks_(memory),
      block_values_(memory),
      regions_(memory),
      threads_(memory),
      slots_(memory),
      streams_(memory),
      fence_sc_(memory),
      arrived_(memory),
      findings_(memory),
      woken_(memory) {}

Machine::~Machine() {
  reset();
  fence_sc_.clear();
  for (Region* r : regions_) destroy(memory_, r);
  for (Thread* t : threads_) destroy(memory_, t);
  for (Slot* s : slots_) destroy(memory_, s);
  for (Stream* s : streams_) destroy(memory_, s);
}

void Machine::ignore(FindingKind kind, bool on) {
  const std::uint32_t b = 1u << static_cast<int>(kind);
  ignored_ = on ? ignored_ | b : ignored_ & ~b;
}

RegionId Machine::add_region(const RegionSpec& spec) {
  auto* r = create<Region>(memory_, spec, memory_);
  const std::uint64_t lines = (spec.bytes + kLineBytes - 1) / kLineBytes;
  r->bytes.resize(lines * kLineBytes);
  r->lines.resize(lines, nullptr);
  r->blocks.resize(spec.bytes / kBlockBytes, nullptr);
  if (!spec.initialised) r->ground_unset.resize(lines, true);
  regions_.push_back(r);
  return static_cast<RegionId>(regions_.size() - 1);
}

void Machine::set_initial(Address to, std::span<const std::byte> bytes) {
  Region& r = *regions_[to.region];
  std::memcpy(&r.bytes[to.offset], bytes.data(), bytes.size());
  r.initial.clear();
}

void Machine::peek(Address from, std::span<std::byte> out) const {
  const Region& r = *regions_[from.region];
  std::memcpy(out.data(), &r.bytes[from.offset], out.size());
  const std::uint64_t end = from.offset + out.size();
  const auto copy = [&](const Cell& c, std::uint32_t index) {
    const std::uint64_t first = std::uint64_t{index} * kLineBytes + c.offset;
    const std::uint64_t lo = std::max<std::uint64_t>(first, from.offset);
    const std::uint64_t hi = std::min<std::uint64_t>(first + c.size, end);
    if (lo < hi) {
      std::memcpy(&out[lo - from.offset], c.newest->value.data() + (lo - first), hi - lo);
    }
  };
  for (std::uint64_t i = from.offset / kLineBytes; i * kLineBytes < end; ++i) {
    const Line* line = r.lines[i];
    if (line == nullptr) {
      const std::uint64_t b = i / kBlockLines;
      if (b >= r.blocks.size() || r.blocks[b] == nullptr) continue;
      const Block& block = *r.blocks[b];
      Cell one;
      Message m;
      std::memcpy(m.value.data(),
                  values_of(r, block, *block.whole.newest) + i % kBlockLines * kLineBytes,
                  kLineBytes);
      one.newest = &m;
      copy(one, static_cast<std::uint32_t>(i));
      continue;
    }
    if (line->parts == nullptr) {
      copy(line->whole, line->index);
    } else {
      line->parts->for_each([&](const Cell& c) { copy(c, line->index); });
    }
  }
}

const Cell* Machine::cell_at(Address at) {
  Region& region = *regions_[at.region];
  const std::uint64_t b = at.offset / kBlockBytes;
  if (b < region.blocks.size() && region.blocks[b] != nullptr)
    into_lines(region, *region.blocks[b]);
  Line* line = region.lines[at.offset / kLineBytes];
  if (line == nullptr) return nullptr;
  if (line->parts == nullptr) return &line->whole;
  return &part_at(region, *line, at.offset % kLineBytes);
}

void Machine::reset() {
  for (Region* r : regions_) {
    for (std::uint32_t index : r->touched) r->lines[index] = nullptr;
    r->touched.clear();
    for (std::uint32_t index : r->touched_blocks) r->blocks[index] = nullptr;
    r->touched_blocks.clear();
    if (r->ground_changed) {
      std::memcpy(r->bytes.data(), r->initial.data(), r->bytes.size());
      if (!r->spec.initialised) r->ground_unset.assign(r->lines.size(), true);
      r->ground_changed = false;
    }
  }
  for (std::size_t i = 0; i < threads_used_; ++i) {
    Thread& t = *threads_[i];
    t.view.forget();
    for (int d = 0; t.fences_held >> d != 0; ++d) t.fences[d].view.forget();
    t.fences_set = t.fences_held = 0;
    for (Parked& p : t.parked) p.view.forget();
    t.parked.clear();
    t.labels.clear();
    t.live = false;
  }
  for (std::size_t i = 0; i < slots_used_; ++i) {
    slots_[i]->threads.clear();
    slots_[i]->ends.clear();
  }
  for (std::size_t i = 0; i < streams_used_; ++i) {
    Stream& s = *streams_[i];
    s.next.forget();
    s.ending.forget();
    s.slots.clear();
  }
  threads_used_ = slots_used_ = streams_used_ = 0;
  for (FenceSc& f : fence_sc_) f.view.forget();
  fence_sc_.clear();
  for (Arrived& a : arrived_) a.view.forget();
  arrived_.clear();
  // All that is left refers to each other only.
  clocks_.reset();
  messages_.reset();
  entries_.reset();
  observers_.reset();
  readers_.reset();
  watchers_.reset();
  cells_.reset();
  parts_.reset();
  lines_.reset();
  blocks_.reset();
  block_values_.reset();
  findings_.clear();
  woken_.clear();
  step_ = ignored_races_ = 0;
  collect_at_ = kCollectAtLeast;
}

// -- threads and launches -------------------------------------------------------------------------

StreamId Machine::add_stream(std::uint16_t rank) {
  Stream& s = *reuse(streams_, streams_used_, memory_, memory_);
  const auto id = static_cast<StreamId>(streams_used_ - 1);
  s.rank = rank;
  s.boundaries = 0;
  s.closed = s.in_launch = false;
  s.live_threads = 0;
  s.next.seen = clocks_.make();
  s.next.observed = s.next.seen;

  Slot& slot = *reuse(slots_, slots_used_, memory_, memory_);
  slot.stream = id;
  slot.block = 0;
  slot.max_time = slot.start_time = slot.alone_until = 0;
  s.marker_slot = static_cast<std::uint32_t>(slots_used_ - 1);
  Thread& t = *reuse(threads_, threads_used_, memory_, memory_);
  t.place = Placement{rank, 0, ~std::uint32_t{0}};
  t.stream = id;
  t.slot = s.marker_slot;
  t.index = 0;
  t.time = 0;
  s.marker = static_cast<ThreadId>(threads_used_ - 1);
  slot.threads.push_back(s.marker);
  return id;
}

void Machine::begin_launch(StreamId stream) {
  Stream& s = *streams_[stream];
  s.in_launch = true;
  s.ending = s.next;
}

ThreadId Machine::launch_thread(StreamId stream, std::uint32_t block, std::uint32_t index,
                                std::uint64_t label, std::uint16_t cluster) {
  Stream& s = *streams_[stream];
  while (s.slots.size() <= block) {
    Slot& fresh = *reuse(slots_, slots_used_, memory_, memory_);
    fresh.stream = stream;
    fresh.block = static_cast<std::uint32_t>(s.slots.size());
    fresh.max_time = fresh.start_time = fresh.alone_until = 0;
    s.slots.push_back(static_cast<std::uint32_t>(slots_used_ - 1));
  }
  const std::uint32_t slot_id = s.slots[block];
  Slot& slot = *slots_[slot_id];
  while (slot.threads.size() <= index) {
    Thread& fresh = *reuse(threads_, threads_used_, memory_, memory_);
    fresh.stream = stream;
    fresh.slot = slot_id;
    fresh.index = static_cast<std::uint32_t>(slot.threads.size());
    slot.threads.push_back(static_cast<ThreadId>(threads_used_ - 1));
  }
  const ThreadId id = slot.threads[index];
  Thread& t = *threads_[id];
  t.place = Placement{s.rank, cluster, block};
  t.time = std::max(slot.start_time, slot.alone_until);
  t.live = true;
  ++s.live_threads;
  t.view = s.next;
  t.parked.clear();
  t.fences_set = 0;
  // Old labels name writes that may still be looked at; a few are enough.
  if (t.labels.size() == kLabels) t.labels.erase(t.labels.begin());
  t.labels.push_back(Label{t.time, label});
  // stream and coherent: fence.acq_rel.sys at the start, after joining the earlier launches.
  if (policy_.boundary != Boundary::strict) snapshot(t, id, Scope::sys);
  if (listener_ != nullptr) tell_edge(Event::Kind::launch, id);
  return id;
}

void Machine::end_thread(ThreadId id) {
  Thread& t = *threads_[id];
  Stream& s = *streams_[t.stream];
  // stream and coherent: fence.acq_rel.sys at the end.
  if (policy_.boundary != Boundary::strict) acquire_parked(t, id, Scope::sys);
  if (listener_ != nullptr) tell_edge(Event::Kind::end_launch, id);
  s.ending.join(t.view);
  slots_[t.slot]->max_time = std::max(slots_[t.slot]->max_time, t.time);
  t.live = false;
  --s.live_threads;
}

void Machine::end_launch(StreamId stream) {
  Stream& s = *streams_[stream];
  s.next = std::move(s.ending);
  const std::uint32_t boundary = s.boundaries++;
  for (std::uint32_t slot_id : s.slots) {
    Slot& slot = *slots_[slot_id];
    slot.start_time = slot.max_time + 1;
    slot.max_time = slot.start_time;
    s.next.join_slot(slot_id, slot.start_time);
    slot.ends.push_back(SlotEnd{slot.start_time, boundary});
  }
  s.next.join_slot(s.marker_slot, s.boundaries);
  // The ends of a stream's launches carry across proxies too (PTX ISA 8.9.4).
  if (policy_.alias_data == AliasData::fence_required) s.next.bridged = s.next.seen;
  s.in_launch = false;
  if (messages_.live() > collect_at_) {
    collect();
    collect_at_ = std::max(kCollectAtLeast, 2 * messages_.live());
  }
}

void Machine::close_stream(StreamId stream) { streams_[stream]->closed = true; }

void Machine::order_after(ThreadId later, ThreadId earlier) {
  Thread& a = *threads_[earlier];
  Thread& b = *threads_[later];
  if (listener_ != nullptr) tell_edge(Event::Kind::dependency, later, earlier);
  b.view.join(a.view);
  add_event(b.view, Epoch{earlier, a.slot, a.time});
  ++a.time;
  slots_[a.slot]->max_time = std::max(slots_[a.slot]->max_time, a.time);
}

void Machine::order_streams(StreamId later, StreamId earlier) {
  streams_[later]->next.join(streams_[earlier]->next);
}

// -- fences and barriers --------------------------------------------------------------------------

// What a later strong write of this thread publishes at each scope distance up to `scope`: it
// takes the place of narrower fences before it, which published less to fewer.
void Machine::snapshot(Thread& t, ThreadId id, Scope scope) {
  const auto at = static_cast<std::uint8_t>(1u << static_cast<int>(scope));
  t.fences_set = static_cast<std::uint8_t>((t.fences_set & ~(at - 1u)) | at);
  t.fences_held |= at;
  FenceView& f = t.fences[static_cast<int>(scope)];
  f.at = Epoch{id, t.slot, t.time};
  f.view = t.view;
  ++t.time;  // what follows the fence is not published by it
}

void Machine::take_entry(Thread& t, const Epoch& at, const View& view) {
  t.view.join(view);
  add_event(t.view, at);
}

// An acquire pattern by a fence: it takes in what earlier strong reads met, if both ends reach
// each other.
void Machine::acquire_parked(Thread& t, ThreadId, Scope scope) {
  std::erase_if(t.parked, [&](const Parked& p) {
    const Placement& other = threads_[p.at.thread]->place;
    if (!reaches(scope, t.place, other) || !reaches(p.scope, other, t.place)) return false;
    take_entry(t, p.at, p.view);
    return true;
  });
}

void Machine::fence(ThreadId id, Fence kind, Scope scope, std::uint16_t site) {
  Thread& t = *threads_[id];
  ++step_;
  const bool in_order = arbiter_ == nullptr || arbiter_->orders_fence_sc();
  if (arbiter_ != nullptr && kind == Fence::sc && in_order) arbiter_->on_fence_sc(id, scope);
  if (kind != Fence::release) acquire_parked(t, id, scope);
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

void Machine::bridge(Thread& t, ThreadId id) {
  if (policy_.alias_data != AliasData::fence_required) return;
  t.view.bridged = t.view.seen;
  add_event(t.view.bridged, Epoch{id, t.slot, t.time});
  ++t.time;
}

void Machine::alias_fence(ThreadId id, std::uint16_t site) {
  Thread& t = *threads_[id];
  ++step_;
  bridge(t, id);
  if (listener_ != nullptr) {
    const Access access{Order::acq_rel, Scope::sys, 1, Proxy::generic, false, site};
    const Now now{id, &t, &access, {}, step_, AccessKind::read, 0};
    tell(Event::Kind::fence, now, 0, 2, 0, nullptr, false);
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

// -- results --------------------------------------------------------------------------------------

void Machine::report(const Finding& finding) {
  if ((ignored_ & (1u << static_cast<int>(finding.kind))) != 0) return;
  if (findings_.size() < kMaxFindings) findings_.push_back(finding);
}

std::uint64_t Machine::label_of(const Epoch& at) const {
  if (at.thread >= threads_used_) return 0;
  const auto& labels = threads_[at.thread]->labels;
  std::uint64_t label = labels.empty() ? 0 : labels.front().label;
  for (const Label& l : labels) {
    if (l.from_time <= at.time) label = l.label;
  }
  return label;
}

void Machine::tell_edge(Event::Kind kind, ThreadId thread, ThreadId from) {
  const auto label = [&](ThreadId id) {
    return label_of(Epoch{id, threads_[id]->slot, threads_[id]->time});
  };
  Event e;
  e.kind = kind;
  e.thread = thread;
  e.label = label(thread);
  e.step = step_;
  if (from != kNoThread) e.from_label = label(from);
  listener_->on_event(e);
}

void Machine::tell(Event::Kind kind, const Now& now, std::uint32_t bytes, std::uint64_t value,
                   std::uint64_t old_value, const Message* from, bool stale, unsigned flags) {
  Event e;
  e.kind = kind;
  e.thread = now.id;
  e.label = label_of(Epoch{now.id, now.thread->slot, now.thread->time});
  e.step = now.step;
  e.site = now.access->site;
  e.order = now.access->order;
  e.scope = now.access->scope;
  e.proxy = now.access->proxy;
  e.address = now.address;
  e.bytes = bytes;
  e.value = value;
  e.old_value = old_value;
  e.stale = stale;
  e.reduction = (flags & kReduction) != 0;
  e.foreseen = (flags & kForeseen) != 0;
  e.access = now.access;
  if (from != nullptr && !from->initial) {
    e.from_step = from->step;
    e.from_label = label_of(from->at);
  }
  listener_->on_event(e);
}

}  // namespace ringfence::machine

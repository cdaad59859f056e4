// Streams, launches and their threads; the boundary modes.

#include <algorithm>

#include "emulator/machine/create.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

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
  slot.of_engine = false;
  slot.max_time = slot.start_time = slot.alone_until = 0;
  s.marker_slot = static_cast<std::uint32_t>(slots_used_ - 1);
  Thread& t = *reuse(threads_, threads_used_, memory_, memory_);
  t.place = Placement{rank, 0, ~std::uint32_t{0}, id};
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
  s.started = s.next;
  s.released.clear();
  s.fenced = false;
  s.triggers.clear();
}

ThreadId Machine::launch_thread(StreamId stream, std::uint32_t block, std::uint32_t index,
                                std::uint64_t label, std::uint16_t cluster) {
  Stream& s = *streams_[stream];
  while (s.slots.size() <= block) {
    Slot& fresh = *reuse(slots_, slots_used_, memory_, memory_);
    fresh.stream = stream;
    fresh.of_engine = false;
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
  t.place = Placement{s.rank, cluster, block, stream};
  t.time = std::max(slot.start_time, slot.alone_until);
  t.live = true;
  ++s.live_threads;
  t.view = s.next;
  t.parked.clear();
  t.fences_set = 0;
  t.inits.clear();
  // Old labels name writes that may still be looked at; a few are enough.
  if (t.labels.size() == kLabels) t.labels.erase(t.labels.begin());
  t.labels.push_back(Label{t.time, label});
  // stream and coherent: fence.acq_rel.sys at the start, after joining the earlier launches.
  if (policy_.boundary != Boundary::strict) snapshot(t, id, Scope::sys);
  t.began = t.time;
  if (listener_ != nullptr) tell_edge(Event::Kind::launch, id);
  return id;
}

void Machine::end_thread(ThreadId id) {
  Thread& t = *threads_[id];
  Stream& s = *streams_[t.stream];
  // stream and coherent: fence.acq_rel.sys at the end.
  if (policy_.boundary != Boundary::strict) acquire_parked(t, id, Scope::sys);
  if (listener_ != nullptr) tell_edge(Event::Kind::end_launch, id);
  // Threads that met last know the same, mostly.
  if (!t.view.same_as(s.ended)) {
    s.ending.join(t.view);
    s.ended = t.view;
  }
  slots_[t.slot]->max_time = std::max(slots_[t.slot]->max_time, t.time);
  t.live = false;
  // What it knew has gone on to whoever comes after it. Of thousands of threads, clocks of
  // thousands of slots are most of the memory.
  t.view.clear();
  for (int d = 0; t.fences_held >> d != 0; ++d) t.fences[d].view.clear();
  t.fences_set = 0;
  t.parked.clear();
  --s.live_threads;
}

void Machine::end_launch(StreamId stream) {
  Stream& s = *streams_[stream];
  s.next = std::move(s.ending);
  s.ended.clear();
  const std::uint32_t boundary = s.boundaries++;
  for (std::uint32_t slot_id : s.slots) {
    Slot& slot = *slots_[slot_id];
    slot.start_time = slot.max_time + 1;
    slot.max_time = slot.start_time;
    s.next.join_slot(slot_id, slot.start_time);
    slot.ends.push_back(SlotEnd{slot.start_time, boundary});
    // The end of a kernel is the end of its asynchronous operations.
    for (const ThreadId thread : slot.threads) {
      for (const ThreadId id : threads_[thread]->engines) {
        Thread& engine = *threads_[id];
        engine.live = false;
        engine.view.clear();
        s.next.join_slot(engine.slot, engine.time);
        slots_[engine.slot]->ends.push_back(SlotEnd{engine.time, boundary});
      }
    }
  }
  s.next.join_slot(s.marker_slot, s.boundaries);
  // The ends of a stream's launches carry across proxies too (PTX ISA 8.9.4).
  if (policy_.alias_data == AliasData::fence_required) s.next.bridged = s.next.seen;
  if (async_proxy_) s.next.async_global = s.next.async_shared = s.next.seen;
  if (other_proxies_) {
    const Epoch at{s.marker, s.marker_slot, s.boundaries - 1};
    bridges_.push_back({at, ProxyFence::alias, true, {}, s.next.seen});
  }
  s.in_launch = false;
  if (messages_.live() > collect_at_) {
    collect();
    collect_at_ = std::max(kCollectAtLeast, 2 * messages_.live());
  }
}

void Machine::close_stream(StreamId stream) { streams_[stream]->closed = true; }

void Machine::order_after(std::span<const ThreadId> later, ThreadId earlier) {
  if (later.empty()) return;
  Thread& a = *threads_[earlier];
  View after = a.view;
  add_event(after, Epoch{earlier, a.slot, a.time});
  for (const ThreadId id : later) {
    if (listener_ != nullptr) tell_edge(Event::Kind::dependency, id, earlier);
    threads_[id]->view.join_shared(after);
  }
  ++a.time;
  slots_[a.slot]->max_time = std::max(slots_[a.slot]->max_time, a.time);
}

void Machine::follow_start(StreamId later, StreamId earlier) {
  const Stream& before = *streams_[earlier];
  View& next = streams_[later]->next;
  next.join(before.started);
  next.join(before.released);
}

// PTX ISA 9.7.15.14: a release fence that precedes launch_dependents in program order synchronises
// with the start of the dependent grid, if its scope holds the GPU. What counts is before the first
// call of any thread of the block: then the block has triggered. Of the other threads that are
// those fences that the caller knows of.
bool Machine::trigger(std::span<const ThreadId> threads, std::span<const ThreadId> next) {
  Stream& s = *streams_[threads_[threads.front()]->stream];
  const std::uint32_t slot = threads_[threads.front()]->slot;
  const bool first = std::none_of(s.triggers.begin(), s.triggers.end(),
                                  [&](std::uint32_t t) { return t == slot; });
  bool fences = false;
  const auto release = [&](const Thread& t, const View* known) {
    for (int d = static_cast<int>(Scope::gpu); d < kScopes; ++d) {
      const FenceView& f = t.fences[d];
      if ((t.fences_set >> d & 1) == 0 || (known != nullptr && !known->seen.covers(f.at))) continue;
      fences = fences || f.at.time >= t.began;
      if (!first) continue;
      s.released.join(f.view);
      add_event(s.released, f.at);
    }
  };
  View known;
  for (const ThreadId id : threads) {
    Thread& t = *threads_[id];
    release(t, nullptr);
    if (!first) continue;
    known.join(t.view);
    ++t.time;  // what follows is not known by it
  }
  if (!first) return fences;
  s.triggers.push_back(slot);
  for (const ThreadId id : next) release(*threads_[id], &known);
  s.fenced = s.fenced || fences;
  return fences;
}

// The end of the launch, which its threads' ends precede, and whose memory operations have been
// performed: the boundary between the two launches stands here.
void Machine::wait_for_launch(ThreadId thread, StreamId earlier) {
  Thread& t = *threads_[thread];
  t.view.join(streams_[earlier]->next);
  if (policy_.boundary != Boundary::strict) snapshot(t, thread, Scope::sys);
}

bool Machine::written_by(Address at, StreamId stream) {
  const Cell* const cell = cell_at(at);
  if (cell == nullptr) return false;
  const View& started = streams_[stream]->started;
  for (const Message* m = cell->newest; m != nullptr; m = m->older) {
    if (!m->initial && threads_[m->at.thread]->stream == stream && !started.seen.covers(m->at)) {
      return true;
    }
  }
  return false;
}

void Machine::order_streams(StreamId later, StreamId earlier) {
  streams_[later]->next.join(streams_[earlier]->next);
}

}  // namespace ringfence::machine

// Asynchronous operations (PTX ISA 8.9.1.1, 9.7.10.28), and the fences of their proxy.

#include <algorithm>

#include "emulator/machine/create.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::machine {

// Edge (i): the issuers' program-order prefixes precede what the operation does. Edge (iii), from
// there to what the issuers do later, there is none: so an engine is a thread of its own. Where the
// issuer knows all that one did, one operation after the other is an order that there is anyway.
ThreadId Machine::issue(std::span<const ThreadId> issuers, ThreadId same) {
  Thread& first = *threads_[issuers.front()];
  const std::uint64_t label = label_of(Epoch{issuers.front(), first.slot, first.time});
  ThreadId id = same;
  for (std::size_t i = 0; id == kNoThread && i < first.engines.size(); ++i) {
    const ThreadId e = first.engines[i];
    const Thread& engine = *threads_[e];
    if (in_past(first, issuers.front(), Epoch{e, engine.slot, engine.time - 1})) id = e;
  }
  if (id == kNoThread) {
    Slot& slot = *reuse(slots_, slots_used_, memory_, memory_);
    slot.stream = first.stream;
    slot.block = slots_[first.slot]->block;
    slot.of_engine = true;
    slot.max_time = slot.start_time = slot.alone_until = 0;
    Thread& fresh = *reuse(threads_, threads_used_, memory_, memory_);
    id = static_cast<ThreadId>(threads_used_ - 1);
    fresh.stream = first.stream;
    fresh.slot = static_cast<std::uint32_t>(slots_used_ - 1);
    fresh.index = 0;
    fresh.time = 1;
    slot.threads.push_back(id);
    first.engines.push_back(id);
  }
  Thread& engine = *threads_[id];
  engine.place = first.place;
  engine.live = true;
  engine.parked.clear();
  engine.fences_set = 0;
  if (engine.labels.empty() || engine.labels.back().label != label) {
    if (engine.labels.size() == kLabels) engine.labels.erase(engine.labels.begin());
    engine.labels.push_back(Label{engine.time, label});
  }
  engine.view = first.view;
  const Thread* last = &first;
  for (const ThreadId issuer : issuers) {
    Thread& t = *threads_[issuer];
    if (!last->view.same_as(t.view)) engine.view.join(t.view);
    last = &t;
  }
  for (const ThreadId issuer : issuers) {
    Thread& t = *threads_[issuer];
    add_event(engine.view, Epoch{issuer, t.slot, t.time});
    ++t.time;  // what follows is no part of it
  }
  return id;
}

std::uint32_t Machine::advance(ThreadId engine) { return ++threads_[engine]->time; }

// Edge (iv): a wait that observes the end.
void Machine::observe(std::span<const ThreadId> threads, ThreadId engine, std::uint32_t time) {
  Thread& e = *threads_[engine];
  if (e.time == time) e.live = false;
  // Threads of a warp know the same, mostly: they go on sharing their clocks.
  View before, after;
  bool known = false;
  for (const ThreadId id : threads) {
    View& view = threads_[id]->view;
    if (known && before.same_as(view)) {
      view = after;
      continue;
    }
    before = view;
    add_event(view, Epoch{engine, e.slot, time - 1});
    after = view;
    known = true;
  }
}

void Machine::complete(Meeting meeting, ThreadId engine, std::uint32_t time, const Placement& at) {
  Thread& e = *threads_[engine];
  if (e.time == time) e.live = false;
  MeetingPart& part = part_of(meeting_at(meeting), at, Scope::sys);
  part.at = Epoch{engine, e.slot, time - 1};
  if (part.view.seen.empty()) part.view.seen = part.view.observed = clocks_.make();
  add_event(part.view, part.at);
}

Machine::Moment Machine::mbarrier_init(ThreadId id) {
  Thread& t = *threads_[id];
  const ThreadId engine = issue({&id, 1});
  const Moment now{engine, threads_[engine]->time};
  observe({&id, 1}, engine, advance(engine));
  const Epoch at{engine, threads_[engine]->slot, now.time};
  if (t.inits.seen.empty()) t.inits.seen = t.inits.observed = clocks_.make();
  add_event(t.inits, at);
  t.last_init = now;
  return now;
}

void Machine::fence_inits(ThreadId id) {
  Thread& t = *threads_[id];
  if (t.inits.seen.empty()) return;
  constexpr auto kBit = static_cast<std::uint8_t>(1u << kInits);
  t.fences_set |= kBit;
  t.fences_held |= kBit;
  const ThreadId engine = t.last_init.thread;
  t.fences[kInits].at = Epoch{engine, threads_[engine]->slot, t.last_init.time};
  t.fences[kInits].view = t.inits;
}

void Machine::async_fence(ThreadId id, bool global, bool shared) {
  if (!async_proxy_) return;
  Thread& t = *threads_[id];
  Clock seen = t.view.seen;
  add_event(seen, Epoch{id, t.slot, t.time});
  if (global) t.view.async_global = seen;
  if (shared) t.view.async_shared = seen;
  ++t.time;  // what follows it is not covered
}

}  // namespace ringfence::machine

#pragma once
// What a thread has behind it, in the three senses that the model needs.

#include "emulator/machine/clock.hpp"

namespace ringfence::machine {

struct View {
  Clock seen;      // base causality (PTX ISA 8.9.2): what happens before
  Clock observed;  // observed time (design, mode coherent): `seen`, and reads-from of strong sys
                   // accesses even where they are relaxed
  Clock bridged;   // the part of `seen` that holds across virtual aliases: up to the last
                   // fence.proxy.alias along the path. Empty unless the policy asks for it.
  // The part of `seen` that holds for accesses of the async proxy, in global and in shared memory:
  // up to the last fence.proxy.async along the path. Empty unless a program has such accesses.
  Clock async_global;
  Clock async_shared;

  // `observed` holds all of `seen`, and mostly no more: then both are one clock, joined once.
  void join(const View& o) {
    if (observed.same_as(seen) && o.observed.same_as(o.seen)) {
      as_one([&](Clock& c) { c.join(o.seen); });
    } else {
      seen.join(o.seen);
      observed.join(o.observed);
    }
    bridged.join(o.bridged);
    async_global.join(o.async_global);
    async_shared.join(o.async_shared);
  }
  // The same, where `o` is likely to hold all of this: then its clocks serve both.
  void join_shared(const View& o) {
    seen.join_shared(o.seen);
    observed.join_shared(o.observed);
    bridged.join_shared(o.bridged);
    async_global.join_shared(o.async_global);
    async_shared.join_shared(o.async_shared);
  }
  // One thread's events before `time`. They are not bridged: only a fence does that.
  void join_thread(ThreadId thread, std::uint32_t slot, std::uint32_t time) {
    in_both([&](Clock& c) { c.join_thread(thread, slot, time); });
  }
  void join_slot(std::uint32_t slot, std::uint32_t time) {
    in_both([&](Clock& c) { c.join_slot(slot, time); });
  }
  void clear() {
    seen.clear();
    observed.clear();
    bridged.clear();
    async_global.clear();
    async_shared.clear();
  }
  // After a reset of the clocks' pool.
  void forget() {
    seen.forget();
    observed.forget();
    bridged.forget();
    async_global.forget();
    async_shared.forget();
  }
  // The same event sets, by identity: a cheap test before a join.
  bool same_as(const View& o) const {
    return seen.same_as(o.seen) && observed.same_as(o.observed) && bridged.same_as(o.bridged) &&
           async_global.same_as(o.async_global) && async_shared.same_as(o.async_shared);
  }

 private:
  template <class F>
  void as_one(F&& f) {
    observed.clear();
    f(seen);
    observed = seen;
  }
  template <class F>
  void in_both(F&& f) {
    if (observed.same_as(seen)) return as_one(f);
    f(seen);
    f(observed);
  }
};

}  // namespace ringfence::machine

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

  void join(const View& o) {
    seen.join(o.seen);
    observed.join(o.observed);
    bridged.join(o.bridged);
  }
  // One thread's events before `time`. They are not bridged: only a fence does that.
  void join_thread(ThreadId thread, std::uint32_t slot, std::uint32_t time) {
    seen.join_thread(thread, slot, time);
    observed.join_thread(thread, slot, time);
  }
  void join_slot(std::uint32_t slot, std::uint32_t time) {
    seen.join_slot(slot, time);
    observed.join_slot(slot, time);
  }
  void clear() {
    seen.clear();
    observed.clear();
    bridged.clear();
  }
  // The same event sets, by identity: a cheap test before a join.
  bool same_as(const View& o) const {
    return seen.same_as(o.seen) && observed.same_as(o.observed) && bridged.same_as(o.bridged);
  }
};

}  // namespace ringfence::machine

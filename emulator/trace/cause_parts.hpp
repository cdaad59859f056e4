#pragma once
// What the causes of races and of waits have in common. Private to emulator/trace.

#include <string>

#include "emulator/trace/cause.hpp"
#include "emulator/trace/history.hpp"

namespace ringfence::trace {

struct Telling {
  const History& history;
  const machine::Finding& finding;
  const schedule::Program& program;
  const machine::Policy& policy;

  std::string line(std::uint16_t site) const { return line_of(program.site_name(site)); }
  std::string line(const machine::Event& e) const { return line(e.site); }
  // "rank 1, block 0, thread 3, at zoo.cu:50 (step 12)"
  std::string event(const machine::Event& e) const;
};

// Two accesses that nothing orders, and reads of old values.
Cause cause_of_race(const Telling& telling);
// Of those two where no chain of signals leads from one to the other.
Cause cause_of_hand_over(const Telling& telling);
// An asynchronous copy whose end nobody has waited for.
Cause cause_of_copy(const Telling& telling);
// A copy that comes behind a read of the place that it writes, where an mbarrier tells of its end;
// empty where that is not so.
Cause cause_of_refill(const Telling& telling);
// Two accesses between which an mbarrier or a cluster's barrier stands, and does not order them.
// Empty where none does.
Cause cause_of_phase(const Telling& telling);
// Waits that nobody ends.
Cause cause_of_wait(const Telling& telling, const schedule::Outcome& outcome);
// Threads that do not meet at a barrier.
Cause cause_of_divergence(const Telling& telling);
// A slot that is not as it was: who did not take the signal.
Cause cause_of_left(const Telling& telling);
// Results that differ: who wrote them, and which wait took an old value before.
Cause cause_of_values(const Telling& telling);

}  // namespace ringfence::trace

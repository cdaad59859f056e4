// Which arrivals meet at which barrier: every way in which the threads of one candidate's paths can
// come to their barriers one after the other.
//
// A counted barrier (bar) takes arrivals into a generation until its count is there; a phase of an
// mbarrier likewise; a cluster barrier waits for every thread of the cluster that has not ended.
// Two orders of arrival that make the same generations, complete them by the same arrivals, and let
// every look fall into the same phase, are one meeting.
#pragma once

#include "tests/axiomatic/relation.hpp"

namespace ringfence::axiomatic {

struct Skeleton;

struct Meeting {
  // What a barrier orders, whatever the strength: from every participant of a generation to every
  // bar.sync of it; from releasing arrivals of a cluster (or a fence before a relaxed one) to the
  // waits.
  Relation barrier;
  // From the arrivals of an mbarrier's phase to the looks that find it over: these synchronise as
  // a write does with a read that observes it.
  Relation observed;
  // What came first, for machines that execute in order.
  Relation time;
  // From what a thread does that ends without the barrier to what its waiters do from there on:
  // whatever the machine, they request nothing before.
  Relation ended;
};

// Sets `meetings` and `meets_undefined`: a thread arrives twice in a generation that is not
// complete, counts differ, or an mbarrier's phase goes on before anybody has seen the last one end.
void find_meetings(Skeleton& skeleton);

}  // namespace ringfence::axiomatic

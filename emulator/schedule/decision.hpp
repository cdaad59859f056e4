#pragma once
// What determines a run besides its case: the choices that differ from the default.
//
// The default run takes no choice: the agent that ran last goes on while it can, then the ready
// agent that was made first; reads return the newest message, writes land last. A decision names
// the agent and its point (each agent counts its own), not a global position: so a list of them
// keeps its meaning when others are dropped, which is what shrinking does.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ringfence::schedule {

enum class DecisionKind : std::uint8_t {
  pick,       // value: the packed label of the agent to step next
  read,       // value: which readable message, 1 = the second newest, ...
  coherence,  // value: where a write lands before the last place
  miss,       // value: which older message a poll sees whose newest does not satisfy it
  sum,        // value: the order of a sum (its index among the permutations in use)
  split,      // value: which part of a warp goes first; 0 = all its lanes together, in order
  timeout,    // value: 1 = a loop that waits, and may give up, does so now
  looks,      // value: 1 = of the whole run: Strategy::drops_looks
  behind,     // value: 1 = lanes let others of their warp act first; at a fence.sc: who is next
  overlap,    // value: 1 = a launch that may begin before the one ahead of it ends does not
  // Faults (faults.hpp); asked only in a run that may have some.
  fault,  // value: encode(StepFault), what befalls the agent or its rank
  late,   // value: for how many points a signal's write is not seen
  dirty,  // value: encode(DirtyWord); the agent is the rank's host, before its first point
};
inline constexpr int kDecisionKinds = 13;

constexpr bool is_fault(DecisionKind kind) { return kind >= DecisionKind::fault; }

struct Decision {
  std::uint64_t agent = 0;  // packed label of the agent at whose point it is taken
  std::uint32_t point = 0;  // the agent's own count of points when it is taken
  DecisionKind kind = DecisionKind::pick;
  std::uint64_t value = 0;
  // Which question of this kind at that point, from 0: one access may ask for several elements.
  std::uint32_t nth = 0;
  friend bool operator==(const Decision&, const Decision&) = default;
};

}  // namespace ringfence::schedule

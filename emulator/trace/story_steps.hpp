#pragma once
// Which steps of a run explain its finding.

#include <cstddef>
#include <span>
#include <vector>

#include "emulator/machine/event.hpp"
#include "emulator/schedule/executor.hpp"

namespace ringfence::trace {

// Indices into outcome.history, ascending, at most `limit`. For two accesses: the chain by which
// the second could have seen the first in observed time (program order, launches, block barriers,
// strong reads-from), of which the links between agents are kept; where there is none, the last
// strong steps of both agents. For a wait or a slot: the last steps at its location. Steps that
// returned an old value are kept before others. `cause`: those that its cause speaks of, which are
// in it whatever else is.
std::vector<std::size_t> steps_that_matter(const schedule::Outcome& outcome,
                                           const machine::Finding& finding, std::size_t limit,
                                           std::span<const std::size_t> cause = {});

// A link of the chain between the two accesses that orders nothing: `reader` saw the value of
// `writer`, but one of them is only relaxed.
struct BareLink {
  std::size_t writer, reader;  // indices into outcome.history
  bool no_release, no_acquire;
};
// Fences count for neither side, so nothing is said of agents that execute any.
std::vector<BareLink> bare_links(const schedule::Outcome& outcome, const machine::Finding& finding);

}  // namespace ringfence::trace

// The axiomatic PTX checker: all outcomes that the model's axioms admit for a small program.
//
// Candidates are paths × meetings at barriers × reads-from × fence-sc order × coherence order. The
// axioms, by the names of the PTX manual (chapter "Memory Consistency Model", version 6.0 on) and
// of Lustig, Sahasrabuddhe, Giroux, "A Formal Analysis of the NVIDIA PTX Memory Consistency Model"
// (2019):
//
//   Coherence         causality between writes to one place is in coherence order
//   Fence-SC          causality between morally strong fence.sc is in fence-sc order
//   Atomicity         no write morally strong with an atomic lies, in coherence order, between the
//                     write that the atomic read and its own
//   No Thin Air       reads-from and dependencies have no cycle
//   SC per location   program order at one place and morally strong communication have no cycle
//   Causality         no read takes a write of its causal future, nor one that is before, in
//                     coherence order, a write of its causal past
//
// Coherence order is the least one: it relates morally strong writes (in either direction, a
// choice), writes related by causality, and what follows by transitivity; the initial write is
// first. Any write without a successor may be the final value of its place.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/axiomatic/program.hpp"

namespace ringfence::axiomatic {

struct Options {
  // Off: program order and reads-from have no cycle, as on a machine that executes in order.
  bool load_buffering = true;
  // Off: fence-sc order never runs against program order and reads-from together, as on a machine
  // where it is the order of execution.
  bool sc_against_reads_from = true;
  // An atomic's write depends on its read, also where the value does not (exch, cas).
  bool atomic_is_dependency = true;
  // Loops: paths that jump backwards more often are given up (Result::bounded).
  int max_backward_jumps = 3;
  // Executions too in which loops of one strong access look for ever (Result::hangs): each at a
  // write that is last in coherence order, while all other threads come to their end.
  bool hangs = false;
};

// The registers of all threads, thread by thread, then the locations.
using Outcome = std::vector<Value>;

struct Result {
  std::set<Outcome> outcomes;
  // Consistent candidate executions.
  std::uint64_t executions = 0;
  // With Options::hangs, the threads that look for ever.
  std::set<std::vector<int>> hangs;
  // Combinations of paths whose barriers never complete.
  std::uint64_t blocked = 0;
  bool bounded = false;
  // Some order of arrivals at barriers is undefined (meetings.hpp).
  bool undefined = false;
  // Some execution has two conflicting accesses, not morally strong, unrelated by causality, which
  // is base causality, or an observation followed by base causality (the manual's letter) …
  bool race = false;
  // … or neither, and not even related by observation itself (through atomics).
  bool race_unobserved = false;
  // The first race found, for people.
  std::string race_text;
};

// Throws std::runtime_error for a program beyond the checker (over 64 events, a wild address).
Result check(const Program& program, const Options& options = {});

}  // namespace ringfence::axiomatic

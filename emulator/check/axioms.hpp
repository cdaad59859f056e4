#pragma once
// The axioms of the PTX model on one recorded execution, for executions that no order of execution
// has: the machine, which executes in order, ran a program in which some reads return what they
// were told and fence.sc is fence.acq_rel. Such a run admits more than the model does, never less:
// what a read brings into the past of what follows it only takes answers away.
//
// Applied, by the names of the PTX manual (chapter "Memory Consistency Model"): Coherence,
// Fence-SC, Atomicity, No Thin Air, SC per location, Causality. Fence-SC order is any that does not
// contradict causality order: the manual asks no more of it, in particular nothing of reads-from.

#include <cstdint>
#include <functional>
#include <vector>

#include "emulator/check/foresight.hpp"
#include "emulator/check/record.hpp"
#include "emulator/machine/machine.hpp"

namespace ringfence::check {

// A consistent execution: the record with one fence-sc order.
struct Judgement {
  bool race = false;
  std::uint64_t fingerprint = 0;
  // By location: the writes that coherence puts before no other.
  std::vector<std::vector<std::uint32_t>> final_writes;
};

struct Judged {
  // Consistent executions that no order of execution respecting program order, reads-from and
  // fence-sc order has; the others are those of the search in order.
  std::vector<Judgement> executions;
  // What of this run asks for another one: a read that may return a write which comes after it.
  std::vector<Foreseen> later;
  // It could not be judged: overlapping cells of different sizes, or aliases that need fences.
  bool unclear = false;
};

// `record` has its sources (Record::resolve() gave yes). `machine` still holds the run: which of
// two morally strong writes coherence puts first is read from it.
// `straight`: every run makes the same accesses, whatever it reads (an atomic may fail). A run that
// the axioms rule out is then followed only where it contradicts them.
Judged judge(const Record& record, machine::Machine& machine, bool straight);

// Resolve() gave `otherwise`: a write does not write what its read was told. What the reads should
// be told; nothing if what one of them was told takes part in what its write writes.
std::vector<Foreseen> corrections(const Record& record);

// Whether load buffering or a fence-sc order of its own could show in executions of the program
// whose record this is.
bool may_buffer(const Record& record);

}  // namespace ringfence::check

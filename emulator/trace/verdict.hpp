#pragma once
// The outcome of a run in the program's words.

#include <string>

#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

// What the trace records of an outcome: its finding with both accesses and stuck waits named.
Verdict make_verdict(const schedule::Outcome& outcome, const schedule::Program& program);
// Its cause and what would fix it, where `outcome` has a history.
void explain(Verdict& verdict, const schedule::Outcome& outcome, const schedule::Program& program,
             const machine::Policy& policy);

// "pad of rank 1, block 0, from rank 2", or region and offset where the program has no word for it.
std::string place(machine::Address at, const schedule::Program& program);

// "rank 1, block 0, thread 3"
std::string who(std::uint64_t label);
// The same; of a launch that the program makes itself what it does: "rank 1 (inputs are written)".
std::string who(std::uint64_t label, const schedule::Program& program);
// "acquire.sys", "weak"
std::string order_text(machine::Order order, machine::Scope scope);
// What a fix has to add, as a sentence without its stop.
std::string missing_text(const machine::Finding& finding);
// "rank 1 was killed after step 12, at r1.c0.b0.t0"
std::string fault_text(const schedule::AppliedFault& fault, const schedule::Program& program);
// How a rank was lost: "killed by signal 9 (Killed)", "exited with status 3", "stalled".
std::string lost_text(const schedule::LostRank& lost);

}  // namespace ringfence::trace

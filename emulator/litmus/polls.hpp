// Loops that wait: which ones the machine can run as an await, and what tells a turn that changes
// nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "emulator/litmus/ast.hpp"

namespace ringfence::litmus {

// A loop of one strong load, or one compare-and-swap, and a branch on what it returned, either way
// round and in either form:
//     L: ld r, x; bne r, v, L           L: ld r, x; beq r, v, OUT; goto L; OUT:
struct Poll {
  // It ends once (what was returned) `wanted` (`against`).
  Compare wanted = Compare::eq;
  Operand against = Constant{};
  // Where the thread goes on.
  std::size_t exit = 0;
};

// The poll that begins with the access at `at`, if there is one.
std::optional<Poll> poll_at(const std::vector<Instruction>& code, std::size_t at);

// For each instruction, which registers' values something that is executed from there on may need:
// an instruction, or (`at_end`) who looks at the thread's end.
std::vector<std::vector<bool>> live_registers(const Thread& thread,
                                              const std::vector<bool>& at_end);

// For each instruction, whether nothing comes behind it in the thread that what the thread knows by
// then could order: no access, fence.sc, barrier or end of a launch.
std::vector<bool> is_last(const Thread& thread);

// Barriers with phases, copies, their fence. Of a test with one of these (the fence alone orders
// nothing) the executions in program order are searched alone.
bool is_asynchronous(const Instruction& instruction);
bool is_asynchronous(const Test& test);

// The registers that some instruction writes.
std::vector<bool> written_registers(const Thread& thread);

}  // namespace ringfence::litmus

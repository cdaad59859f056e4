#pragma once
// The story of a run: at most a screen of text that a kernel engineer grasps without the source of
// this tool.

#include <string>
#include <utility>
#include <vector>

#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

struct StoryOptions {
  std::string replay;    // the command that runs it again; the last line
  std::string token{};   // the trace as one word (token.hpp), for a replay without the file
  std::string remedy{};  // what would have ordered it: whole lines, before the replay command
  std::size_t max_steps = 10;
  std::size_t max_stuck = 8;
  bool color = false;
  bool free_running = false;  // nobody chose the schedule
};

// Those of compiled kernels that are not the usual ones, by name.
std::vector<std::pair<std::string, std::string>> kernel_policies(const machine::Policy& policy);

// "multicast-flag=cohere alias-data=cohere load-buffering=off summation=fp32-rank-order"
std::string policy_text(const machine::Policy& policy, const Configuration& config);

// Who waits for which slot, and for whom, as a table of at most `limit` rows; the first line says
// how many there are.
std::string stuck_text(const std::vector<StuckNames>& stuck, std::size_t limit);

// `outcome` with its history; trace.verdict made from it (make_verdict).
std::string story(const Trace& trace, const schedule::Outcome& outcome,
                  const schedule::Program& program, const StoryOptions& options);

// Every step of the run, one line each.
std::string step_by_step(const schedule::Outcome& outcome, const schedule::Program& program);

}  // namespace ringfence::trace

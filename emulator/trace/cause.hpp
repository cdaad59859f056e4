#pragma once
// Why a finding came about, as far as the run's events tell: what a reader who has never seen the
// kernel needs first, and what would fix it where no order or scope alone does.

#include <cstddef>
#include <string>
#include <vector>

#include "emulator/machine/finding.hpp"
#include "emulator/machine/policy.hpp"
#include "emulator/schedule/executor.hpp"
#include "emulator/schedule/program.hpp"
#include "emulator/trace/hint.hpp"

namespace ringfence::trace {

// One sentence each, without a stop; either may be empty.
struct Cause {
  std::string text;
  std::string fix;
  std::vector<std::size_t> steps{};  // of outcome.history, those that it speaks of
  std::vector<Hint> hints{};
};

// `outcome` with its history; without one only what the finding itself says is told.
Cause cause_of(const schedule::Outcome& outcome, const machine::Finding& finding,
               const schedule::Program& program, const machine::Policy& policy);

// "zoo.cu:50" of "zoo.ptx:513 (zoo.cu:50): atom...", else "zoo.ptx:513"; what a program says of a
// site of its own where it is no line of a file.
std::string line_of(const std::string& site_name);
// The line at which the helper of that line is called, where a program says one; else empty.
std::string caller_of(const std::string& site_name);

}  // namespace ringfence::trace

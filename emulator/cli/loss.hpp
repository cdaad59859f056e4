#pragma once
// Rank processes that were lost: what befell a process says nothing of the kernel.

#include <span>
#include <string>

#include "emulator/cli/errors.hpp"
#include "emulator/schedule/executor.hpp"

namespace ringfence::cli {

// One line for each, what it means and what may help: "rank 2 killed by signal 9 (Killed) after
// step 12 (r2.c0.b0.t0): ...".
std::string loss_text(std::span<const schedule::LostRank> lost);

// `unknown`, or `internal` if one crashed.
Exit loss_exit(std::span<const schedule::LostRank> lost);

}  // namespace ringfence::cli

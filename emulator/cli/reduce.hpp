#pragma once
// A smaller configuration that fails in the same way: fewest calls, ranks, blocks, tokens, and the
// smallest matrices, in this order of worth to a reader.

#include <vector>

#include "emulator/programs/config.hpp"
#include "emulator/schedule/executor.hpp"

namespace ringfence::cli {

struct ReduceLimits {
  std::uint64_t schedules = 300;  // for each configuration tried
  double seconds = 15;            // for all of them together
};

struct Reduced {
  programs::Config config;
  schedule::Outcome outcome;  // a failing run of it
  bool smaller = false;       // than what was given
};

// Configurations to try next, the greatest reductions first. Not all need be legal.
std::vector<programs::Config> smaller_configs(const programs::Config& config);

// `outcome` is a run of `config` under `base` that failed with `kind`. Runs inline.
Reduced reduce(const programs::Config& config, const schedule::RunSpec& base,
               const schedule::Outcome& outcome, machine::FindingKind kind,
               const ReduceLimits& limits = {});

}  // namespace ringfence::cli

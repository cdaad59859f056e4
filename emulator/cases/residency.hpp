#pragma once
// How many blocks of a launch are on the GPU at the same time, by the limits of compute capability
// 9.0 (CUDA Programming Guide, compute capabilities; cuda_occupancy.h for the granules) and
// LaunchConfig::multiprocessors of them.

#include <cstdint>
#include <string>

#include "emulator/machine/policy.hpp"
#include "emulator/ptx/execution.hpp"

namespace ringfence::cases {

struct Residency {
  std::uint64_t blocks = 0;  // that fit together
  std::string why;           // "1 on each of 132 multiprocessors by 201024 bytes of shared memory"
};

// `registers` a thread: 0: by the kernel's .maxnreg, and if it has none they are no limit.
Residency residency(const ptx::Program& program, const ptx::LaunchConfig& config,
                    std::uint32_t registers);

// The blocks of a launch that are sure to make progress together; 0: all of them.
std::uint32_t progressing_blocks(const ptx::Program& program, const ptx::LaunchConfig& config,
                                 const machine::Policy& policy, bool cooperative);

}  // namespace ringfence::cases

#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/program.hpp"

namespace ringfence::ptx {

/// A kernel's basic blocks.
struct Flow {
  struct Block {
    std::uint32_t first = 0;  ///< ops first .. last
    std::uint32_t last = 0;
    std::vector<std::uint32_t> successors;
  };
  std::vector<Block> blocks;
  std::vector<std::uint32_t> block_of;  ///< op -> block
  /// Blocks in reverse post-order; of two successors the one further down the text comes later, so
  /// that a loop precedes what follows it. Blocks that nothing reaches stand at the end.
  std::vector<std::uint32_t> order;
};

Flow analyse_flow(const Program& program);

/// Op index of every possible next op; ops.size() stands for the end of the kernel.
std::vector<std::uint32_t> next_ops(const Program& program, std::uint32_t op);

}  // namespace ringfence::ptx

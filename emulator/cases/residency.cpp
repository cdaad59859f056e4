#include "emulator/cases/residency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace ringfence::cases {
namespace {

constexpr std::uint32_t kThreads = 2048, kWarps = 64, kBlocks = 32;  // of one
constexpr std::uint32_t kSharedBytes = 228 * 1024, kReserved = 1024, kSharedGranule = 128;
constexpr std::uint32_t kRegisters = 65536, kRegisterGranule = 256, kQuarters = 4;

// Graphics processing clusters, by their multiprocessors: a cluster of blocks is on one of them. Of
// another number than the usual one nobody says how they lie: in groups of 16.
std::vector<std::uint32_t> groups(std::uint32_t multiprocessors) {
  if (multiprocessors == ptx::kMultiprocessors) return {16, 16, 16, 16, 16, 16, 18, 18};
  std::vector<std::uint32_t> out(multiprocessors / 16, 16);
  if (multiprocessors % 16 != 0) out.push_back(multiprocessors % 16);
  return out;
}

std::uint32_t up(std::uint32_t n, std::uint32_t granule) {
  return (n + granule - 1) / granule * granule;
}

std::uint64_t volume(const std::array<std::uint32_t, 3>& d) {
  return std::uint64_t{d[0]} * d[1] * d[2];
}

std::uint32_t cluster_size(const ptx::Program& program, const ptx::LaunchConfig& config) {
  const std::array<std::uint32_t, 3> given =
      config.cluster[0] != 0
          ? config.cluster
          : program.function->cluster.value_or(std::array<std::uint32_t, 3>{1, 1, 1});
  return static_cast<std::uint32_t>(volume(given));
}

}  // namespace

Residency residency(const ptx::Program& program, const ptx::LaunchConfig& config,
                    std::uint32_t registers) {
  const auto threads = static_cast<std::uint32_t>(volume(config.block));
  const std::uint32_t warps = (threads + 31) / 32;
  std::uint32_t most = std::min({kBlocks, kThreads / threads, kWarps / warps});
  std::string by = fmt::format("{} threads", threads);
  const auto shared = static_cast<std::uint32_t>(
      up(static_cast<std::uint32_t>(program.static_shared) + config.dynamic_shared + kReserved,
         kSharedGranule));
  if (kSharedBytes / shared < most) {
    most = kSharedBytes / shared;
    by = fmt::format("{} bytes of shared memory, {} of them reserved", shared, kReserved);
  }
  if (registers == 0) registers = program.function->max_registers.value_or(0);
  if (registers != 0) {
    // A warp's registers lie in one quarter of the multiprocessor.
    const std::uint32_t a_warp = up(32 * registers, kRegisterGranule);
    const std::uint32_t fit = kRegisters / kQuarters / a_warp * kQuarters / warps;
    if (fit < most) {
      most = fit;
      by = fmt::format("{} registers a thread", registers);
    }
  }
  const std::uint32_t size = cluster_size(program, config);
  Residency out;
  const std::vector<std::uint32_t> gpcs = groups(config.multiprocessors);
  for (const std::uint32_t multiprocessors : gpcs) {
    out.blocks += std::uint64_t{multiprocessors} * most / size * size;
  }
  out.why = fmt::format("{} on each of {} multiprocessors by {}", most, config.multiprocessors, by);
  if (size > 1) out.why += fmt::format(", clusters of {} in one of {} groups", size, gpcs.size());
  return out;
}

std::uint32_t progressing_blocks(const ptx::Program& program, const ptx::LaunchConfig& config,
                                 const machine::Policy& policy, bool cooperative) {
  std::uint64_t blocks = residency(program, config, policy.registers).blocks;
  const std::uint32_t size = cluster_size(program, config);
  // CUDA's execution model: once a thread has run, those of its cluster, and of a cooperative grid,
  // make progress; others need not ever.
  if (policy.progress == machine::Progress::letter && !cooperative) blocks = size;
  // What fits nowhere is refused by the launch, not by this.
  blocks = std::max<std::uint64_t>(blocks, size);
  return blocks < volume(config.grid) ? static_cast<std::uint32_t>(blocks) : 0;
}

}  // namespace ringfence::cases

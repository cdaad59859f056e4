// Creation of an execution: checks, constants of the launch, blocks.

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "emulator/ptx/error.hpp"
#include "emulator/ptx/exec/state.hpp"

namespace ringfence::ptx {
namespace {

constexpr std::uint32_t kMostThreads = 1024;
constexpr std::uint32_t kMostClusterBlocks = 16;
// Copies that may be under way at once and are still told apart.
constexpr std::uint32_t kCopyEngines = 64;

std::uint32_t volume(const std::array<std::uint32_t, 3>& d) { return d[0] * d[1] * d[2]; }

std::array<std::uint32_t, 3> position(std::uint32_t index,
                                      const std::array<std::uint32_t, 3>& size) {
  return {index % size[0], index / size[0] % size[1], index / size[0] / size[1]};
}

std::string text_of(const std::array<std::uint32_t, 3>& d) {
  return "[" + std::to_string(d[0]) + ", " + std::to_string(d[1]) + ", " + std::to_string(d[2]) +
         "]";
}

// As given; else what the kernel requires.
std::array<std::uint32_t, 3> cluster_of(const Program& program, const LaunchConfig& config) {
  if (config.cluster != std::array<std::uint32_t, 3>{0, 0, 0}) return config.cluster;
  return program.function->cluster.value_or(std::array<std::uint32_t, 3>{1, 1, 1});
}

}  // namespace

AlignedBytes aligned_bytes(std::size_t bytes) {
  bytes = (bytes + 127) / 64 * 64;
  auto* p = static_cast<std::byte*>(std::aligned_alloc(64, bytes));
  if (p == nullptr) throw std::bad_alloc();
  std::memset(p, 0, bytes);
  return AlignedBytes(p);
}

std::vector<std::uint8_t> initial_globals(const Program& program, std::uint64_t address) {
  std::vector<std::uint8_t> out(program.global_bytes, 0);
  const std::vector<Variable>& variables = program.module->variables;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Variable& variable = variables[i];
    const Placement& place = program.module_placement[i];
    if (place.space != Space::global) continue;
    for (std::size_t b = 0; b < variable.initial.size(); ++b) {
      out[place.offset + b] = variable.initial[b];
    }
    for (const Relocation& relocation : variable.relocations) {
      const std::uint64_t base = relocation.of_function
                                     ? function_address(relocation.index)
                                     : address + program.module_placement[relocation.index].offset;
      const std::uint64_t value = base + static_cast<std::uint64_t>(relocation.addend);
      for (std::uint32_t b = 0; b < relocation.size && b < 8; ++b) {
        out[place.offset + relocation.offset + b] = static_cast<std::uint8_t>(value >> (8 * b));
      }
    }
  }
  return out;
}

void check_launch(const Program& program, const LaunchConfig& config) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(program.module->file, program.function->line, reason, program.function->name);
  };
  const auto cluster = cluster_of(program, config);
  for (std::size_t i = 0; i < 3; ++i) {
    if (config.grid[i] == 0 || config.block[i] == 0) refuse("grid and block need every size >= 1");
    if (cluster[i] == 0 || cluster[i] > kMostClusterBlocks)
      refuse("a cluster has at most 16 blocks");
    if (config.grid[i] % cluster[i] != 0) {
      refuse("the grid " + text_of(config.grid) + " is no multiple of the cluster " +
             text_of(cluster));
    }
    if (config.grid[i] > kMostBlocks || config.block[i] > kMostThreads)
      refuse("the launch is too large");
  }
  const std::uint64_t blocks = static_cast<std::uint64_t>(config.grid[0]) * config.grid[1];
  if (blocks > kMostBlocks || blocks * config.grid[2] > kMostBlocks)
    refuse("the launch is too large");
  const std::uint64_t threads =
      static_cast<std::uint64_t>(config.block[0]) * config.block[1] * config.block[2];
  if (threads > kMostThreads) refuse("a block has at most 1024 threads");
  if (const auto& limit = program.function->max_threads; limit && threads > volume(*limit)) {
    refuse("the block is larger than .maxntid allows");
  }
  if (const auto& exact = program.function->required_threads; exact && config.block != *exact) {
    refuse("the block differs from .reqntid");
  }
  const std::uint64_t shared = program.static_shared + config.dynamic_shared;
  if (shared > kMostSharedBytes) {
    refuse(std::to_string(shared) + " bytes of shared memory, and a block has at most " +
           std::to_string(kMostSharedBytes));
  }
  if (volume(cluster) > kMostClusterBlocks) refuse("a cluster has at most 16 blocks");
}

Execution::State::State(const Program& program, LaunchConfig config, GlobalMemory& memory,
                        VirtualClock& clock, std::function<void(const std::string&)> print)
    : program_(program),
      config_(std::move(config)),
      memory_(memory),
      clock_(clock),
      print_(std::move(print)) {
  config_.cluster = cluster_of(program_, config_);
  check_launch(program_, config_);
  if (config_.parameters.size() != program_.parameter_bytes) {
    throw Error(program_.module->file, program_.function->line,
                "the parameters have " + std::to_string(config_.parameters.size()) +
                    " bytes, the kernel takes " + std::to_string(program_.parameter_bytes),
                program_.function->name);
  }
  threads_ = volume(config_.block);
  warps_ = (threads_ + kLanes - 1) / kLanes;
  shared_bytes_ = program_.static_shared + config_.dynamic_shared;
  cluster_size_ = volume(config_.cluster);
  clusters_total_ = volume(config_.grid) / cluster_size_;
  constants_ = aligned_bytes(program_.constant_bytes);
  fill_constants();
  find_open_barriers();
  admit_clusters();
}

std::uint64_t Execution::State::variable_address(Operand::Owner owner, std::uint32_t index) const {
  if (owner == Operand::Owner::parameter) return program_.parameter_offset[index];
  const Placement& at = owner == Operand::Owner::module ? program_.module_placement[index]
                                                        : program_.function_placement[index];
  return at.space == Space::global ? config_.globals + at.offset : at.offset;
}

std::uint64_t Execution::State::parameter_value(const Constant& constant) const {
  const unsigned bytes = size_of(constant.type);
  std::uint64_t value = 0;
  std::memcpy(&value, config_.parameters.data() + constant.offset, bytes);
  if (is_signed(constant.type) && bytes < 8) {
    // Extended to the register's declared size, which stands in bits.
    const unsigned shift = 64 - 8 * bytes;
    value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << shift) >> shift);
    if (constant.bits < 8) value &= (1ULL << (8 * constant.bits)) - 1;
  }
  return value;
}

std::uint32_t Execution::State::special_constant(Special special) const {
  const auto nclusters = [&](std::size_t i) { return config_.grid[i] / config_.cluster[i]; };
  switch (special) {
    case Special::ntid_x:
      return config_.block[0];
    case Special::ntid_y:
      return config_.block[1];
    case Special::ntid_z:
      return config_.block[2];
    case Special::nctaid_x:
      return config_.grid[0];
    case Special::nctaid_y:
      return config_.grid[1];
    case Special::nctaid_z:
      return config_.grid[2];
    case Special::nclusterid_x:
      return nclusters(0);
    case Special::nclusterid_y:
      return nclusters(1);
    case Special::nclusterid_z:
      return nclusters(2);
    case Special::cluster_nctaid_x:
      return config_.cluster[0];
    case Special::cluster_nctaid_y:
      return config_.cluster[1];
    case Special::cluster_nctaid_z:
      return config_.cluster[2];
    case Special::cluster_nctarank:
      return cluster_size_;
    case Special::is_explicit_cluster:
      return cluster_size_ > 1 ? 1 : 0;
    case Special::nwarpid:
      return warps_;
    case Special::nsmid:
      return config_.multiprocessors;
    case Special::gridid:
      return config_.launch;
    case Special::dynamic_smem_size:
      return config_.dynamic_shared;
    case Special::total_smem_size:
      return static_cast<std::uint32_t>(shared_bytes_);
    default:
      return 0;
  }
}

void Execution::State::fill_constants() {
  for (const Constant& constant : program_.constants) {
    std::uint64_t value = constant.bits;
    if (constant.source == Constant::Source::variable) {
      value += variable_address(constant.owner, constant.index);
    } else if (constant.source == Constant::Source::parameter) {
      value = parameter_value(constant);
    } else if (constant.source == Constant::Source::special) {
      value = special_constant(constant.special);
    }
    std::byte* place = constants_.get() + constant.place;
    if (constant.wide) {
      std::fill_n(reinterpret_cast<std::uint64_t*>(place), kLanes, value);
    } else {
      std::fill_n(reinterpret_cast<std::uint32_t*>(place), kLanes,
                  static_cast<std::uint32_t>(value));
    }
  }
}

std::vector<std::uint32_t> Execution::State::cluster_blocks(std::uint32_t cluster) const {
  std::array<std::uint32_t, 3> clusters;
  for (std::size_t i = 0; i < 3; ++i) clusters[i] = config_.grid[i] / config_.cluster[i];
  const auto at = position(cluster, clusters);
  std::vector<std::uint32_t> out;
  for (std::uint32_t r = 0; r < cluster_size_; ++r) {
    const auto within = position(r, config_.cluster);
    std::array<std::uint32_t, 3> block;
    for (std::size_t i = 0; i < 3; ++i) block[i] = at[i] * config_.cluster[i] + within[i];
    out.push_back(block[0] + config_.grid[0] * (block[1] + config_.grid[1] * block[2]));
  }
  return out;
}

bool Execution::State::has_room() const {
  return config_.resident_blocks == 0 || live_blocks_.empty() ||
         live_blocks_.size() + cluster_size_ <= config_.resident_blocks;
}

void Execution::State::admit_clusters() {
  models_shared_ = memory_.models_shared();
  if (config_.asks_for_room) {
    cluster_begun_.resize(clusters_total_);
    return;
  }
  while (begun_ < clusters_total_ && has_room()) begin_cluster(begun_);
}

bool Execution::State::admit(std::uint32_t block) {
  if (!config_.asks_for_room) return true;
  const auto at = position(block, config_.grid);
  std::uint32_t cluster = 0;
  for (std::size_t i = 3; i-- > 0;) {
    cluster = cluster * (config_.grid[i] / config_.cluster[i]) + at[i] / config_.cluster[i];
  }
  if (cluster_begun_[cluster]) return true;
  if (!has_room()) return false;
  begin_cluster(cluster);
  return true;
}

void Execution::State::begin_cluster(std::uint32_t index) {
  ++begun_;
  if (config_.asks_for_room) cluster_begun_[index] = true;
  auto cluster = std::make_unique<Cluster>();
  const bool bulk = std::any_of(program_.copies.begin(), program_.copies.end(), [&](const auto& c) {
    return models_shared_ || c.form != CopyOp::Form::async;
  });
  if (bulk || !program_.group_products.empty()) {
    cluster->engines.resize(groups_a_block() * cluster_size_ + kCopyEngines);
  }
  if (config_.check_shared_races && shared_bytes_ != 0) {
    cluster->order = shared_order(*cluster);
    cluster->races = std::make_unique<SharedRaces>(
        shared_bytes_ * cluster_size_, warps_ * cluster_size_, warps_,
        static_cast<std::uint32_t>(cluster->engines.size()), cluster->order.get());
    cluster->races->fence_reads(config_.fence_reads);
  }
  std::uint32_t rank = 0;
  for (const std::uint32_t block : cluster_blocks(index)) start_block(*cluster, block, rank++);
  live_clusters_[index] = std::move(cluster);
}

void Execution::State::start_block(Cluster& cluster, std::uint32_t index, std::uint32_t rank) {
  auto block = std::make_unique<Block>();
  block->index = index;
  block->at = position(index, config_.grid);
  block->cluster_rank = rank;
  block->cluster = &cluster;
  block->shared = Zeroed<std::byte, 1024>(shared_bytes_);
  block->local.resize(program_.local_bytes * threads_);
  block->live_warps = warps_;
  block->races = cluster.races.get();
  if (!program_.group_products.empty()) block->groups.resize(groups_a_block());
  for (Barrier& barrier : block->barriers) barrier.arrived.assign(warps_, 0);
  block->warps.resize(warps_);
  for (std::uint32_t w = 0; w < warps_; ++w) {
    Warp& warp = block->warps[w];
    warp.block = block.get();
    warp.index = w;
    const std::uint32_t lanes = threads_ - w * kLanes;
    warp.live = lanes >= kLanes ? 0xFFFFFFFFU : (1U << lanes) - 1;
    warp.registers = aligned_bytes(program_.register_bytes);
    Split split;
    split.mask = warp.live;
    warp.splits.push_back(split);
    enqueue(warp);
  }
  cluster.blocks.push_back(block.get());
  live_blocks_[index] = std::move(block);
}

}  // namespace ringfence::ptx

// What special registers hold, clocks among them.

#include <algorithm>

#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {

std::uint64_t Execution::State::special_value(const Warp& warp, Special which, std::uint32_t lane,
                                              std::uint64_t now) const {
  const Block& block = *warp.block;
  const auto cluster_at = [&](std::size_t i) { return block.at[i] / config_.cluster[i]; };
  const std::uint32_t thread = warp.index * kLanes + lane;
  switch (which) {
    case Special::tid_x:
      return thread % config_.block[0];
    case Special::tid_y:
      return thread / config_.block[0] % config_.block[1];
    case Special::tid_z:
      return thread / config_.block[0] / config_.block[1];
    case Special::ctaid_x:
      return block.at[0];
    case Special::ctaid_y:
      return block.at[1];
    case Special::ctaid_z:
      return block.at[2];
    case Special::clusterid_x:
      return cluster_at(0);
    case Special::clusterid_y:
      return cluster_at(1);
    case Special::clusterid_z:
      return cluster_at(2);
    case Special::cluster_ctaid_x:
      return block.at[0] % config_.cluster[0];
    case Special::cluster_ctaid_y:
      return block.at[1] % config_.cluster[1];
    case Special::cluster_ctaid_z:
      return block.at[2] % config_.cluster[2];
    case Special::cluster_ctarank:
      return block.cluster_rank;
    case Special::laneid:
      return lane;
    case Special::warpid:
      return warp.index;
    case Special::smid:
      return block.index % config_.multiprocessors;
    case Special::lanemask_eq:
      return 1U << lane;
    case Special::lanemask_le:
      return (2ULL << lane) - 1;
    case Special::lanemask_lt:
      return (1ULL << lane) - 1;
    case Special::lanemask_ge:
      return 0xFFFFFFFFULL & ~((1ULL << lane) - 1);
    case Special::lanemask_gt:
      return 0xFFFFFFFFULL & ~((2ULL << lane) - 1);
    case Special::clock:
    case Special::clock64:
      return now;
    case Special::clock_hi:
    case Special::globaltimer_hi:
      return now >> 32;
    case Special::globaltimer:
    case Special::globaltimer_lo:
      return now;
    default:
      return 0;
  }
}

void Execution::State::special(Warp& warp, const Op& op, std::uint32_t mask) {
  const auto which = static_cast<Special>(op.immediate);
  const bool looks = which == Special::clock || which == Special::clock64 ||
                     which == Special::globaltimer || which == Special::globaltimer_lo;
  if (looks) ++warp.block->clocks;
  if (looks && clock_.rate == 0) {
    clock_.now += warp.idle;
    warp.idle = std::clamp<std::uint64_t>(warp.idle * 2, 1, kMostIdle);
  }
  each_lane(mask, [&](std::uint32_t lane) {
    const std::uint64_t value = special_value(warp, which, lane, clock_.now);
    if (op.detail == 8) {
      longs(warp, op.d)[lane] = value;
    } else {
      const std::uint64_t kept = op.detail == 2 ? 0xFFFFU : 0xFFFFFFFFU;
      words(warp, op.d)[lane] = static_cast<std::uint32_t>(value & kept);
    }
  });
}

}  // namespace ringfence::ptx

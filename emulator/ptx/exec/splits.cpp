// How a warp's lanes split, meet again and end, and what ends with them.

#include <algorithm>
#include <bit>

#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {

std::size_t Execution::State::pick(const Warp& warp) const {
  std::size_t best = warp.splits.size();
  const auto before = [&](const Split& a, const Split& b) {
    if (a.turn != b.turn) return a.turn < b.turn;
    if (program_.order[a.pc] != program_.order[b.pc])
      return program_.order[a.pc] < program_.order[b.pc];
    return a.pc < b.pc;
  };
  for (std::size_t i = 0; i < warp.splits.size(); ++i) {
    if (warp.splits[i].state != SplitState::ready) continue;
    if (best == warp.splits.size() || before(warp.splits[i], warp.splits[best])) best = i;
  }
  return best;
}

std::size_t Execution::State::settle(Warp& warp, std::size_t current) {
  Split& split = warp.splits[current];
  for (std::size_t i = 0; i < warp.splits.size();) {
    Split& other = warp.splits[i];
    if (i == current || other.state != SplitState::ready || other.pc != split.pc) {
      ++i;
      continue;
    }
    warp.splits[current].mask |= other.mask;
    warp.splits[current].turn = std::min(warp.splits[current].turn, other.turn);
    warp.splits.erase(warp.splits.begin() + static_cast<std::ptrdiff_t>(i));
    if (i < current) --current;
    return settle(warp, current);
  }
  return pick(warp);
}

void Execution::State::detach(Warp& warp, std::size_t split, std::uint32_t lanes,
                              std::uint32_t pc) {
  warp.splits[split].mask &= ~lanes;
  Split fresh;
  fresh.mask = lanes;
  fresh.pc = pc;
  fresh.turn = warp.splits[split].turn;
  warp.splits.push_back(fresh);
}

void Execution::State::branch_index(Warp& warp, std::size_t split, const Op& op,
                                    std::uint32_t mask) {
  const std::vector<std::uint32_t>& targets = program_.targets[op.detail];
  const std::uint32_t* index = words(warp, op.a);
  const std::uint32_t skipped = warp.splits[split].mask & ~mask;
  if (skipped != 0) detach(warp, split, skipped, warp.splits[split].pc + 1);
  std::uint32_t left = mask;
  while (left != 0) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(left));
    const std::uint32_t which = index[lane];
    if (which >= targets.size()) {
      throw Fault(FaultKind::undefined,
                  "brx.idx index " + std::to_string(which) + " is beyond its " +
                      std::to_string(targets.size()) + " labels",
                  lane);
    }
    std::uint32_t same = 0;
    for (unsigned i = 0; i < kLanes; ++i) {
      if ((left >> i & 1U) != 0 && index[i] == which) same |= 1U << i;
    }
    left &= ~same;
    if (left == 0) {
      warp.splits[split].pc = targets[which];
    } else {
      detach(warp, split, same, targets[which]);
    }
  }
}

void Execution::State::exit_lanes(Warp& warp, std::size_t split, std::uint32_t mask) {
  Split& ending = warp.splits[split];
  warp.live &= ~mask;
  warp.exit_pc = std::min(ending.pc, static_cast<std::uint32_t>(program_.ops.size()) - 1);
  ending.mask &= ~mask;
  if (ending.mask == 0) {
    warp.splits.erase(warp.splits.begin() + static_cast<std::ptrdiff_t>(split));
  } else {
    ++ending.pc;
  }
  check_visits(warp, mask);
  if (!warp.bulk_groups.empty()) tell_unread(warp, mask);
  for (const Barrier& b : warp.block->barriers) {
    if (b.active) tell_exits(b.token, warp, mask, b.arrived[warp.index]);
  }
  const Cluster& cluster = *warp.block->cluster;
  if (cluster.token != 0) tell_exits(cluster.token, warp, mask, arrived_in(cluster, warp));
  if (warp.live == 0) warp.block->last_thread = warp.index * kLanes + first_lane(mask);
  lanes_gone(warp);
  if (warp.live == 0 && --warp.block->live_warps == 0) finish_block(*warp.block);
}

// A bulk group is waited for by the thread that committed it, so what nobody has waited for by now
// may go on behind the block's end.
void Execution::State::tell_unread(Warp& warp, std::uint32_t mask) {
  each_lane(mask, [&](std::uint32_t lane) {
    for (const std::vector<AsyncMoment>& group : warp.bulk_groups[lane]) {
      for (const AsyncMoment& moment : group) {
        if (!moment.read_seen) memory_.exits_under_store(agents(warp, 1U << lane), moment.op);
      }
    }
  });
}

void Execution::State::finish_block(Block& block) {
  Cluster* cluster = block.cluster;
  bool done = true;
  for (const Block* member : cluster->blocks) done = done && member->live_warps == 0;
  if (!done) {
    try_complete_cluster(*cluster);
    return;  // its shared memory stays reachable for the others
  }
  for (auto it = live_clusters_.begin(); it != live_clusters_.end(); ++it) {
    if (it->second.get() != cluster) continue;
    std::erase_if(queue_, [&](const Warp* warp) { return warp->block->cluster == cluster; });
    for (Block* member : cluster->blocks) live_blocks_.erase(member->index);
    live_clusters_.erase(it);
    break;
  }
  admit_clusters();
}

}  // namespace ringfence::ptx

// Barriers of a block and a cluster, and how the lanes of a warp come together.

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {

std::uint32_t Execution::State::uniform(const Warp& warp, Slot slot, std::uint32_t mask,
                                        const char* what) const {
  const std::uint32_t* lanes = words(warp, slot);
  const std::uint32_t value = lanes[first_lane(mask)];
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    if (lanes[first_lane(left)] != value) {
      throw Fault(FaultKind::undefined, std::string(what) + " differs between lanes of the warp",
                  first_lane(left));
    }
  }
  return value;
}

// A barrier at which every warp of the block waits has one way to meet: whoever is at a generation
// has to leave it before the next. Where some arrive and go on, or a count names fewer, or may, it
// is open who meets whom, and whether a warp comes twice.
void Execution::State::find_open_barriers() {
  for (const std::uint32_t i : program_.barrier_ops) {
    const Op& op = program_.ops[i];
    const BarrierOp& form = program_.barriers[op.detail];
    const auto value = [&](Slot slot) {
      return *reinterpret_cast<const std::uint32_t*>(constants_.get() + slot.offset());
    };
    const bool whole = !form.has_count || (op.b.is_constant() && value(op.b) == warps_ * kLanes);
    if (whole && !form.arrive_only) continue;
    const bool named = op.a.is_constant() && value(op.a) < 16;
    open_barriers_ |= named ? 1U << value(op.a) : ~0U;
  }
}

std::uint32_t Execution::State::threads_of(const Warp& warp) const {
  const std::uint32_t lanes = threads_ - warp.index * kLanes;
  return lanes >= kLanes ? 0xFFFFFFFFU : (1U << lanes) - 1;
}

std::uint32_t Execution::State::arrived_in(const Cluster& cluster, const Warp& warp) {
  std::uint32_t arrived = 0;
  for (std::uint32_t lane = 0; lane < warp.cluster_phase.size(); ++lane) {
    if (warp.cluster_phase[lane] > cluster.phase) arrived |= 1U << lane;
  }
  return arrived;
}

// When the lanes arrive or exit, and not when the barrier completes: who arrived without a wait may
// have done more by then. Warps none of whose lanes arrive have ended by then, and are told of
// there.
void Execution::State::tell_exits(SyncToken token, const Warp& warp, std::uint32_t exited,
                                  std::uint32_t arrived) {
  exited &= ~arrived;
  if (arrived != 0 && exited != 0) memory_.released_by_exit(token, agents(warp, exited));
}

void Execution::State::barrier(Warp& warp, std::size_t split_index, const Op& op) {
  const BarrierOp& form = program_.barriers[op.detail];
  const std::uint32_t mask = warp.splits[split_index].mask;
  const std::uint32_t number = uniform(warp, op.a, mask, "the barrier's number");
  if (number >= 16) {
    throw Fault(FaultKind::undefined, "barrier " + std::to_string(number) + " is beyond 15",
                first_lane(mask));
  }
  Block& block = *warp.block;
  Barrier& barrier = block.barriers[number];
  const std::uint32_t count = form.has_count ? uniform(warp, op.b, mask, "the thread count") : 0;
  if (count % kLanes != 0) {
    throw Fault(FaultKind::undefined,
                "a barrier's thread count of " + std::to_string(count) + " is no multiple of 32",
                first_lane(mask));
  }
  if ((open_barriers_ >> number & 1U) != 0) {
    memory_.before_barrier(agents(warp, mask));
    const auto generation = static_cast<std::uint32_t>(barrier.generation);
    memory_.barrier_step(agents(warp, mask), {false, number, generation + 1, generation});
  }
  Split& split = warp.splits[split_index];
  if (!barrier.active) {
    barrier.active = true;
    barrier.reduces = form.reduce != BarrierOp::Reduce::none;
    barrier.count = count;
    barrier.ones = 0;
    barrier.lanes = 0;
    barrier.token = next_token_++;
    barrier.clock.clear();
  } else if (barrier.count != count) {
    throw Fault(FaultKind::barrier_divergence,
                "threads give barrier " + std::to_string(number) + " different thread counts",
                first_lane(mask));
  } else if (barrier.reduces != (form.reduce != BarrierOp::Reduce::none)) {
    // PTX ISA 9.7.15.1.
    throw Fault(FaultKind::barrier_misuse,
                "barrier " + std::to_string(number) +
                    " is active with bar.red by some of its threads, and bar.sync or bar.arrive "
                    "by others",
                first_lane(mask));
  }
  if ((barrier.arrived[warp.index] & mask) != 0) {
    throw Fault(
        FaultKind::barrier_divergence,
        "the warp arrives twice at barrier " + std::to_string(number) + " before it completes",
        first_lane(mask));
  }
  barrier.arrived[warp.index] |= mask;
  barrier.lanes += static_cast<std::uint32_t>(std::popcount(mask));
  if (form.reduce != BarrierOp::Reduce::none) {
    const std::uint32_t p = predicate(warp, op.c) ^ ((op.immediate & kNegateC) != 0 ? ~0U : 0U);
    barrier.ones += static_cast<std::uint32_t>(std::popcount(p & mask));
  }
  memory_.arrive(barrier.token, agents(warp, mask), !form.arrive_only);
  tell_exits(barrier.token, warp, threads_of(warp) & ~warp.live, barrier.arrived[warp.index]);
  if (block.races) block.races->give(in_cluster(warp), barrier.clock);
  if (form.arrive_only) {
    ++split.pc;
  } else {
    split.state = SplitState::barrier;
    split.wait = number;
    split.token = barrier.token;
  }
  const std::uint32_t pc = split.pc;
  if (!try_complete(block, number)) return;
  class Met final : public BlockState {
   public:
    Met(State& state, const Block& block) : state_(state), block_(block) {}
    std::uint64_t acts() const override { return block_.acts; }
    Digest digest(bool spares) const override { return state_.digest(block_, spares); }
    std::vector<std::uint64_t> attempts() const override { return state_.attempts(block_); }
    void set_attempts(std::span<const std::uint64_t> values) override {
      state_.set_attempts(block_, values);
    }

   private:
    State& state_;
    const Block& block_;
  };
  // What other blocks of a cluster do to its shared memory is no read of the block's.
  if (cluster_size_ != 1) return;
  Met met(*this, block);
  memory_.met(agents(warp, mask), pc, met);
}

// Barriers and stores to shared memory show in the block's state.
bool Execution::State::is_act(const Op& op, std::uint32_t pc) const {
  if (!program_.looks->has_effect(pc) || op.kind == Kind::barrier) return false;
  if (op.kind != Kind::memory) return true;
  const Access& access = program_.accesses[op.detail].access;
  return access.operation != Operation::store || access.space != Space::shared;
}

const Looks::State& Execution::State::rounds_at(std::uint32_t op) {
  const auto known = rounds_.find(op);
  if (known != rounds_.end()) return known->second;
  return rounds_.emplace(op, program_.rounds->state(program_, op)).first->second;
}

BlockState::Digest Execution::State::digest(const Block& block, bool spares) {
  BlockState::Digest out;
  out.all = digest_of(block, true);
  bool steady = spares && program_.rounds != nullptr;
  for (const Warp& warp : block.warps) {
    for (const Split& split : warp.splits) {
      if (!steady) return out;
      steady = program_.rounds->is_in_cycle(split.pc) && program_.rounds->is_steady(split.pc);
      for (const Looks::TimeOut& end : program_.rounds->time_outs(split.pc)) {
        out.times_out = true;
        steady = steady && end.traps;
      }
    }
  }
  if (steady) out.rest = digest_of(block, false);
  return out;
}

// A round that returns to a place by ops without an effect went round one of the cycles that are
// there without such, which is the one around the place.
std::uint64_t Execution::State::digest_of(const Block& block, bool all) {
  std::uint64_t digest = all ? block.clocks : block.passed;
  const auto mix = [&](std::uint64_t value) {
    digest = (digest ^ value) * 0x9FB21C651E98DF25ULL;
    digest ^= digest >> 29;
  };
  const auto take = [&](const std::byte* bytes, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; i += 8) {
      std::uint64_t value = 0;
      std::memcpy(&value, bytes + i, std::min<std::uint64_t>(8, count - i));
      mix(value);
    }
  };
  for (const Warp& warp : block.warps) {
    mix(warp.live);
    // In no order: how a warp came to be split is of no matter.
    std::uint64_t places = 0;
    for (const Split& split : warp.splits) {
      std::uint64_t place = std::uint64_t{split.pc} << 32 | split.mask;
      place = (place ^ static_cast<std::uint64_t>(split.state)) * 0xBF58476D1CE4E5B9ULL;
      places += (place ^ place >> 31) * 0x94D049BB133111EBULL;
    }
    mix(places);
    if (all) {
      take(warp.registers.get(), program_.register_bytes);
      continue;
    }
    std::vector<const Split*> splits;
    for (const Split& split : warp.splits) splits.push_back(&split);
    std::sort(splits.begin(), splits.end(), [](const Split* a, const Split* b) {
      return first_lane(a->mask) < first_lane(b->mask);
    });
    for (const Split* split : splits) {
      const Looks::State& there = rounds_at(split->pc);
      each_register_of(warp, *split, there.counts, mix);
      each_register_of(warp, *split, there.stays, mix);
    }
  }
  take(block.local.data(), block.local.size());
  for (std::uint64_t at = 0; at < block.shared.size(); at += block.shared.part) {
    if (!block.shared.used(at)) continue;
    mix(at);
    take(&block.shared[at], std::min(block.shared.part, block.shared.size() - at));
  }
  for (const Barrier& barrier : block.barriers) {
    if (!barrier.active) continue;
    mix(std::uint64_t{barrier.count} << 32 | barrier.ones);
    for (const std::uint32_t arrived : barrier.arrived) mix(arrived);
  }
  return digest;
}

// Parts of a warp that stand at one op go on together: in what order they came to a barrier, and so
// whether a look of one of them was in vain before, is not to show in what they do behind it. At a
// block's barrier only where looks are peeled, which part a warp before it waits. Elsewhere parts
// that wait by themselves cost fewer executions, and a run that cannot repeat a graph for their
// order leaves the verdict UNKNOWN (Walk::diverge).
void Execution::State::join_ready(Warp& warp) {
  for (std::size_t i = 0; i < warp.splits.size(); ++i) {
    Split& split = warp.splits[i];
    if (split.state != SplitState::ready) continue;
    for (std::size_t j = warp.splits.size(); --j > i;) {
      const Split& other = warp.splits[j];
      if (other.state != SplitState::ready || other.pc != split.pc) continue;
      split.mask |= other.mask;
      split.turn = std::min(split.turn, other.turn);
      warp.splits.erase(warp.splits.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
}

bool Execution::State::try_complete(Block& block, std::uint32_t number) {
  Barrier& barrier = block.barriers[number];
  if (!barrier.active) return false;
  std::uint32_t warps = 0;
  bool everyone = true;
  for (const Warp& warp : block.warps) {
    const std::uint32_t arrived = barrier.arrived[warp.index];
    const bool whole = (arrived & warp.live) == warp.live;
    // Threads that exited count as arrived, a warp that took part counts with all its lanes.
    if (arrived != 0 && whole) ++warps;
    everyone = everyone && whole;
  }
  if (barrier.count == 0 ? !everyone : warps * kLanes < barrier.count) return false;
  if (barrier.count == 0) check_even(block, number);
  for (const Warp& warp : block.warps) {
    if (barrier.count != 0 || barrier.arrived[warp.index] != 0) continue;
    memory_.released_by_exit(barrier.token, agents(warp, threads_of(warp)));
  }
  bool all_wait = true;
  for (const Warp& warp : block.warps) {
    for (const Split& split : warp.splits) {
      all_wait = all_wait && split.state == SplitState::barrier && split.wait == number;
    }
  }
  barrier.active = false;
  ++barrier.generation;
  std::fill(barrier.arrived.begin(), barrier.arrived.end(), 0);
  for (Warp& warp : block.warps) {
    bool freed = false;
    for (Split& split : warp.splits) {
      if (split.state != SplitState::barrier || split.wait != number) continue;
      const Op& op = program_.ops[split.pc];
      const BarrierOp& form = program_.barriers[op.detail];
      const bool all = barrier.ones == barrier.lanes;
      const bool any = barrier.ones != 0;
      if (form.reduce == BarrierOp::Reduce::popc) {
        for (std::uint32_t left = split.mask; left != 0; left &= left - 1) {
          words(warp, op.d)[first_lane(left)] = barrier.ones;
        }
      } else if (form.reduce != BarrierOp::Reduce::none && op.e) {
        const bool value = form.reduce == BarrierOp::Reduce::and_ ? all : any;
        std::uint32_t& p = *words(warp, op.e);
        p = (p & ~split.mask) | (value ? split.mask : 0);
      }
      memory_.depart(barrier.token, agents(warp, split.mask));
      split.state = SplitState::ready;
      ++split.pc;
      if (all_wait) warp.met = split.pc;
      freed = true;
    }
    if (freed) {
      join_ready(warp);
      if (block.races) block.races->take(in_cluster(warp), barrier.clock);
      enqueue(warp);
    }
  }
  memory_.retire(barrier.token);
  return all_wait;
}

// PTX ISA 9.7.15.1: an .aligned barrier is one instruction for all threads. Those of the block that
// have exited release it all the same (section exit).
void Execution::State::check_even(const Block& block, std::uint32_t number) {
  UnevenBarrier found{number};
  const Warp* first = nullptr;
  for (const Warp& warp : block.warps) {
    for (const Split& split : warp.splits) {
      if (split.state != SplitState::barrier || split.wait != number) continue;
      if (!program_.barriers[program_.ops[split.pc].detail].aligned) continue;
      const std::uint32_t thread = warp.index * kLanes + first_lane(split.mask);
      if (first == nullptr) {
        first = &warp;
        found.thread = thread;
        found.instruction = split.pc;
      } else if (split.pc != found.instruction) {
        found.other = thread;
        found.other_instruction = split.pc;
        return memory_.uneven_barrier(agents(*first, 1U << found.thread % kLanes), found);
      }
    }
  }
  if (first == nullptr) return;
  for (const Warp& warp : block.warps) {
    const std::uint32_t all = threads_of(warp);
    if (warp.live == all) continue;
    found.other = warp.index * kLanes + first_lane(all & ~warp.live);
    found.other_instruction = warp.exit_pc;
    found.exited = true;
    return memory_.uneven_barrier(agents(*first, 1U << found.thread % kLanes), found);
  }
}

void Execution::State::warp_sync(Warp& warp, std::size_t split_index, const Op& op) {
  Split& split = warp.splits[split_index];
  const std::uint32_t members = uniform(warp, op.a, split.mask, "the member mask");
  if ((split.mask & ~members) != 0) {
    throw Fault(FaultKind::undefined, "a lane executes bar.warp.sync without being in its mask",
                first_lane(split.mask & ~members));
  }
  split.state = SplitState::warp_sync;
  split.wait = members;
  try_warp_sync(warp, members);
}

void Execution::State::try_warp_sync(Warp& warp, std::uint32_t members) {
  std::uint32_t here = 0;
  for (const Split& split : warp.splits) {
    if (split.state == SplitState::warp_sync && split.wait == members) here |= split.mask;
  }
  if (here == 0 || (members & warp.live & ~here) != 0) return;
  if (!warp.tried) {
    const SyncToken token = next_token_++;
    memory_.arrive(token, agents(warp, here), true);
    memory_.depart(token, agents(warp, here));
    memory_.retire(token);
    if (warp.block->races) warp.block->races->order_lanes(in_cluster(warp));
  }
  for (Split& split : warp.splits) {
    if (split.state != SplitState::warp_sync || split.wait != members) continue;
    split.state = SplitState::ready;
    ++split.pc;
  }
  join_ready(warp);
  enqueue(warp);
}

void Execution::State::exchange(Warp& warp, std::size_t split_index, const Op& op) {
  const std::uint32_t pc = warp.splits[split_index].pc;
  const std::uint32_t mask = warp.splits[split_index].mask;
  const std::uint32_t members = uniform(warp, op.f, mask, "the member mask");
  if ((mask & ~members) != 0) {
    throw Fault(FaultKind::undefined,
                "a lane executes a .sync instruction without being in its member mask",
                first_lane(mask & ~members));
  }
  const std::uint32_t needed = members & warp.live;
  if ((mask & needed) == needed) {
    perform_exchange(warp, op, mask);
    ++warp.splits[split_index].pc;
    return;
  }
  // Others are missing: wait, together with those that came to the same instruction before.
  warp.splits[split_index].state = SplitState::exchange;
  warp.splits[split_index].wait = members;
  std::uint32_t here = 0;
  for (const Split& split : warp.splits) {
    if (split.state == SplitState::exchange && split.pc == pc && split.wait == members) {
      here |= split.mask;
    }
  }
  if ((needed & ~here) != 0) return;
  std::erase_if(warp.splits, [&](const Split& split) {
    return split.state == SplitState::exchange && split.pc == pc && split.wait == members;
  });
  Split merged;
  merged.mask = here;
  merged.pc = pc;
  warp.splits.push_back(merged);
  perform_exchange(warp, op, here);
  ++warp.splits.back().pc;
  enqueue(warp);
}

bool Execution::State::gather(Warp& warp, std::size_t split_index) {
  if (warp.splits[split_index].mask == warp.live) return true;
  constexpr std::uint32_t kAll = 0xFFFFFFFFU;
  const std::uint32_t pc = warp.splits[split_index].pc;
  warp.splits[split_index].state = SplitState::exchange;
  warp.splits[split_index].wait = kAll;
  const auto here = [&](const Split& split) {
    return split.state == SplitState::exchange && split.pc == pc;
  };
  Split merged;
  merged.pc = pc;
  for (const Split& split : warp.splits) {
    if (here(split)) merged.mask |= split.mask;
  }
  if (merged.mask != warp.live) return false;
  std::erase_if(warp.splits, here);
  warp.splits.push_back(merged);
  return false;
}

void Execution::State::lanes_gone(Warp& warp) {
  Block& block = *warp.block;
  for (std::uint32_t number = 0; number < 16; ++number) try_complete(block, number);
  std::vector<std::uint32_t> members;
  for (const Split& split : warp.splits) {
    if (split.state == SplitState::warp_sync) members.push_back(split.wait);
  }
  for (const std::uint32_t mask : members) try_warp_sync(warp, mask);
  for (std::size_t i = 0; i < warp.splits.size(); ++i) {
    if (warp.splits[i].state != SplitState::exchange) continue;
    const std::uint32_t needed = warp.splits[i].wait & warp.live;
    if ((needed & ~warp.splits[i].mask) != 0) continue;
    if (program_.ops[warp.splits[i].pc].kind != Kind::exchange) {  // gather: what is left of them
      warp.splits[i].state = SplitState::ready;
      enqueue(warp);
      continue;
    }
    perform_exchange(warp, program_.ops[warp.splits[i].pc], warp.splits[i].mask);
    warp.splits[i].state = SplitState::ready;
    ++warp.splits[i].pc;
    enqueue(warp);
  }
  if (cluster_size_ > 1) try_complete_cluster(*block.cluster);
}

void Execution::State::cluster_arrive(Warp& warp, std::uint32_t mask, bool relaxed) {
  Cluster& cluster = *warp.block->cluster;
  if (warp.cluster_phase.empty()) warp.cluster_phase.assign(kLanes, 0);
  if (cluster.token == 0) cluster.token = next_token_++;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    std::uint32_t& phase = warp.cluster_phase[first_lane(left)];
    if (phase > cluster.phase) {
      throw Fault(FaultKind::barrier_divergence,
                  "a thread arrives twice at the cluster's barrier without a wait",
                  first_lane(left));
    }
    phase = static_cast<std::uint32_t>(cluster.phase + 1);
  }
  // PTX ISA 9.7.15.3: a relaxed arrival orders nothing by itself; behind a release fence that
  // covers the cluster it is the strong write of a release pattern.
  memory_.arrive(cluster.token, agents(warp, mask), false,
                 {relaxed ? Order::relaxed : Order::release, Scope::sys});
  tell_exits(cluster.token, warp, threads_of(warp) & ~warp.live, arrived_in(cluster, warp));
  if (cluster.races && !relaxed) cluster.races->give(in_cluster(warp), cluster.clock);
  try_complete_cluster(cluster);
}

void Execution::State::try_complete_cluster(Cluster& cluster) {
  if (cluster.token == 0) return;
  for (const Block* block : cluster.blocks) {
    for (const Warp& warp : block->warps) {
      for (std::uint32_t left = warp.live; left != 0; left &= left - 1) {
        if (warp.cluster_phase.empty() || warp.cluster_phase[first_lane(left)] <= cluster.phase) {
          return;
        }
      }
    }
  }
  for (const Block* block : cluster.blocks) {
    for (const Warp& warp : block->warps) {
      if (arrived_in(cluster, warp) != 0) continue;
      memory_.released_by_exit(cluster.token, agents(warp, threads_of(warp)));
    }
  }
  ++cluster.phase;
  if (cluster.previous != 0) memory_.retire(cluster.previous);
  cluster.previous = cluster.token;
  cluster.token = 0;
  cluster.previous_clock = std::move(cluster.clock);
  cluster.clock.clear();
  for (Block* block : cluster.blocks) {
    for (Warp& warp : block->warps) {
      for (Split& split : warp.splits) {
        if (split.state != SplitState::cluster) continue;
        memory_.depart(cluster.previous, agents(warp, split.mask));
        if (cluster.races) cluster.races->take(in_cluster(warp), cluster.previous_clock);
        passed_cluster(warp, split.mask);
        split.state = SplitState::ready;
        ++split.pc;
        enqueue(warp);
      }
    }
  }
}

void Execution::State::cluster_wait(Warp& warp, std::size_t split_index, std::uint32_t mask) {
  Cluster& cluster = *warp.block->cluster;
  Split& split = warp.splits[split_index];
  bool open = false;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const std::uint32_t lane = first_lane(left);
    if (warp.cluster_phase.empty() || warp.cluster_phase[lane] == 0) {
      throw Fault(FaultKind::barrier_divergence, "barrier.cluster.wait without an arrive before it",
                  lane);
    }
    open = open || warp.cluster_phase[lane] > cluster.phase;
  }
  if (!open) {
    if (cluster.previous != 0) memory_.depart(cluster.previous, agents(warp, mask));
    if (cluster.races) cluster.races->take(in_cluster(warp), cluster.previous_clock);
    passed_cluster(warp, mask);
    ++split.pc;
    return;
  }
  split.state = SplitState::cluster;
}

}  // namespace ringfence::ptx

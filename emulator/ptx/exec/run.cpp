// The interpreter's loop, and how warps split, merge and end.

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

// .sync.aligned: all lanes of the warp execute it together.
bool of_whole_warp(Kind kind) {
  return kind == Kind::matrix_load || kind == Kind::matrix_multiply ||
         kind == Kind::group_multiply || kind == Kind::group_fence || kind == Kind::group_commit ||
         kind == Kind::group_wait;
}

}  // namespace

Agents Execution::State::agents(const Warp& warp, std::uint32_t mask) const {
  return {config_.rank, config_.launch, warp.block->index, warp.index, mask};
}

void Execution::State::raise(const Fault& fault, const Warp& warp, std::uint32_t pc) const {
  pc = fault.instruction().value_or(pc);
  KernelFault::Place place;
  place.rank = config_.rank;
  place.block = warp.block->index;
  place.thread = warp.index * kLanes + fault.lane();
  if (fault.place()) {
    place.thread = fault.place()->thread;
    pc = fault.place()->instruction;
  }
  place.instruction = pc;
  if (pc < program_.ops.size()) {
    const Instruction& instruction = program_.function->instructions[pc];
    place.line = instruction.line;
    place.file = program_.module->file_of(instruction.unit);
    place.statement = std::string(instruction.text);
    if (instruction.location) {
      const SourceLocation& at = *instruction.location;
      const std::vector<std::string>& files = program_.module->files;
      if (at.line != 0 && at.file < files.size()) {
        place.source = files[at.file] + ":" + std::to_string(at.line);
      }
    }
  }
  if (place.file.empty()) place.file = program_.module->file;
  KernelFault out(fault.kind(), fault.what(), place);
  out.other = fault.other();
  out.shared = fault.shared();
  throw out;
}

void Execution::State::expand(std::uint32_t mask) {
  if (lanes_mask_ == mask) return;
  for (unsigned i = 0; i < kLanes; ++i) lanes_[i] = 0U - (mask >> i & 1U);
  lanes_mask_ = mask;
}

void Execution::State::enqueue(Warp& warp) {
  if (warp.queued) return;
  warp.queued = true;
  queue_.push_back(&warp);
}

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

// Whether the next step from there, but for arithmetic, is griddepcontrol.launch_dependents.
bool Execution::State::leads_to_trigger(std::uint32_t pc) const {
  const auto passes = [](const Op& op) {
    return op.kind == Kind::alu || op.kind == Kind::special || op.kind == Kind::nothing;
  };
  while (pc < program_.ops.size() && passes(program_.ops[pc])) ++pc;
  return pc < program_.ops.size() && program_.ops[pc].kind == Kind::launch_trigger &&
         !program_.ops[pc].guard;
}

// Threads of the block that it is the next step of since all of them met: so it is whatever the
// others have done by now, and not only where they are ahead of some step in between.
std::vector<Agents> Execution::State::next_triggers(const Block& block) const {
  std::vector<Agents> out;
  for (const Warp& warp : block.warps) {
    if (!warp.met || !leads_to_trigger(*warp.met)) continue;
    for (const Split& split : warp.splits) {
      if (split.state == SplitState::ready) out.push_back(agents(warp, split.mask));
    }
  }
  return out;
}

void Execution::State::trap(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask) {
  const std::uint32_t lane = first_lane(mask);
  switch (static_cast<TrapKind>(op.detail)) {
    case TrapKind::recursion: {
      const std::string name(program_.function->instructions[pc].operands[0].name);
      throw Fault(FaultKind::trap,
                  "'" + name + "' calls itself deeper than " + std::to_string(op.immediate) +
                      " times, which is as far as recursion is followed",
                  lane);
    }
    case TrapKind::no_target:
      throw Fault(FaultKind::undefined,
                  "an indirect call of " + std::to_string(longs(warp, op.a)[lane]) +
                      ", which is the address of no function that fits the call",
                  lane);
    case TrapKind::trap:
      break;
  }
  throw Fault(FaultKind::trap, "trap", lane);
}

Stop Execution::State::run_warp(Warp& warp, std::size_t current, const Quantum& quantum) {
  const Op* const ops = program_.ops.data();
  const auto end = static_cast<std::uint32_t>(program_.ops.size());
  AluContext context;
  context.bank[0] = warp.registers.get();
  context.bank[1] = constants_.get();
  context.lanes = lanes_;
  std::uint32_t accesses = quantum.memory_accesses;
  std::uint32_t back_edges = quantum.back_edges;
  std::uint64_t done = 0;
  std::uint64_t threads = 0;
  std::uint32_t pc = warp.splits[current].pc;
  std::uint32_t split_mask = warp.splits[current].mask;
  // Counted when it changes: on the oldest instruction set that is a call.
  auto split_lanes = static_cast<std::uint32_t>(std::popcount(split_mask));
  bool settled = warp.splits.size() == 1;
  bool closed = true;  // registers alone decided what was done
  const auto account = [&] {
    counts_.warp_instructions += done;
    counts_.thread_instructions += threads;
    clock_.now += done * clock_.rate;
    done = 0;
    threads = 0;
  };
  // Writes back, lets `current` be another split, reads again. False: nothing here is ready.
  const auto reload = [&](std::size_t next) {
    current = next;
    if (current == warp.splits.size()) return false;
    pc = warp.splits[current].pc;
    split_mask = warp.splits[current].mask;
    split_lanes = static_cast<std::uint32_t>(std::popcount(split_mask));
    settled = warp.splits.size() == 1;
    return true;
  };
  try {
    for (;;) {
      if (!settled && program_.block_start[pc] != 0) {
        warp.splits[current].pc = pc;
        if (!reload(settle(warp, current))) break;
      }
      if (pc >= end) {
        account();
        warp.splits[current].pc = pc;
        const bool last = warp.live == split_mask;
        exit_lanes(warp, current, split_mask);
        if (last) return Stop::exited;
        if (!reload(pick(warp))) return Stop::waiting;
        continue;
      }
      const Op& op = ops[pc];
      std::uint32_t mask = split_mask;
      if (op.guard) {
        const std::uint32_t p = predicate(warp, op.guard);
        mask &= op.guard_negated ? ~p : p;
      }
      ++done;
      threads += mask == split_mask ? split_lanes : static_cast<std::uint32_t>(std::popcount(mask));
      if (op.kind == Kind::alu) {
        if (mask != 0) {
          context.mask = mask;
          context.whole = mask == warp.live;
          if (!context.whole) expand(mask);
          op.run(context, op);
        }
        ++pc;
        continue;
      }
      if (op.kind == Kind::branch) {
        const std::uint32_t stays = split_mask & ~mask;
        if (mask == 0) {
          ++pc;
          continue;
        }
        const bool backward = op.detail <= pc;
        if (stays != 0) {
          warp.splits[current].pc = op.detail;
          detach(warp, current, stays, pc + 1);
          pc = op.detail;
          split_mask = mask;
          split_lanes = static_cast<std::uint32_t>(std::popcount(mask));
          settled = false;
        } else {
          pc = op.detail;
        }
        if (backward) {
          if (config_.instruction_budget != 0 &&
              counts_.warp_instructions + done > config_.instruction_budget) {
            throw Fault(FaultKind::budget,
                        "the budget of " + std::to_string(config_.instruction_budget) +
                            " warp instructions is used up: endless loop?",
                        static_cast<std::uint32_t>(std::countr_zero(mask)));
          }
          if (--back_edges == 0) {
            if (closed) look_for_end(warp, split_mask, pc);
            warp.splits[current].pc = pc;
            ++warp.splits[current].turn;
            account();
            return Stop::quantum;
          }
        }
        continue;
      }
      if (mask == 0) {
        if (program_.rounds != nullptr && program_.rounds->has_effect(pc)) ++warp.block->passed;
        ++pc;
        continue;
      }
      if (op.kind == Kind::special) {
        closed = false;
        warp.rounds = 0;
        special(warp, op, mask);
        ++pc;
        continue;
      }
      // From here on the split's own record is what counts.
      closed = false;
      warp.rounds = 0;
      Split& split = warp.splits[current];
      split.pc = pc;
      warp.idle = 0;
      if (op.kind != Kind::launch_trigger) warp.met.reset();
      warp.effects += program_.looks->has_effect(pc) ? 1 : 0;
      warp.block->acts += is_act(op, pc) ? 1 : 0;
      account();
      if (!program_.watch_of.empty()) watch(warp, pc);
      if (of_whole_warp(op.kind) && mask == split.mask && !gather(warp, current)) {
        if (!reload(pick(warp))) return Stop::waiting;
        settled = warp.splits.size() == 1;
        continue;
      }
      Outcome outcome{mask, false};
      bool waits = false;
      bool is_access = false;
      switch (op.kind) {
        case Kind::memory:
          outcome = memory_op(warp, op, pc, mask, split_mask);
          is_access = true;
          break;
        case Kind::fence:
          if (warp.block->races && !models_shared_ &&
              program_.fences[op.detail].proxy == Proxy::async) {
            warp.block->races->fence_proxy(in_cluster(warp));
          }
          memory_.fence(agents(warp, mask), program_.fences[op.detail], pc);
          is_access = true;
          break;
        case Kind::copy_async:
          copy_async(warp, op, pc, mask);
          break;
        case Kind::copy_commit:
          copy_commit(warp, op, mask);
          break;
        case Kind::copy_wait:
          outcome = copy_wait(warp, op, mask);
          is_access = true;
          break;
        case Kind::mbarrier:
          outcome = mbarrier(warp, op, pc, mask);
          break;
        case Kind::launch_wait:
          outcome.completed = memory_.dependencies_met(agents(warp, mask)) ? mask : 0;
          break;
        case Kind::launch_trigger:
          memory_.before_trigger(agents(warp, mask));
          {
            const auto met = std::exchange(warp.met, std::nullopt);
            memory_.launch_dependents(agents(warp, mask), next_triggers(*warp.block),
                                      met && leads_to_trigger(*met), pc);
          }
          break;
        case Kind::active_mask:
          for (unsigned i = 0; i < kLanes; ++i) {
            if ((mask >> i & 1U) != 0) words(warp, op.d)[i] = mask;
          }
          break;
        case Kind::to_space:
          to_space(warp, op, mask);
          break;
        case Kind::map_address:
          map_address(warp, op, mask);
          break;
        case Kind::matrix_load:
          matrix_move(warp, op, pc, mask);
          break;
        case Kind::matrix_multiply:
          matrix_multiply(warp, op, mask);
          break;
        case Kind::group_multiply:
          group_multiply(warp, op, pc, mask);
          break;
        case Kind::group_fence:
          group_fence(warp, mask);
          break;
        case Kind::group_commit:
          group_commit(warp, mask);
          break;
        case Kind::alu_watched:
          context.mask = mask;
          context.whole = mask == warp.live;
          if (!context.whole) expand(mask);
          op.run(context, op);
          break;
        case Kind::print:
          print(warp, op, mask);
          break;
        case Kind::assert_fail:
          assert_fail(warp, op, mask);
        case Kind::trap:
          trap(warp, op, pc, mask);
        case Kind::nothing:
          break;
        case Kind::exit: {
          const bool last = warp.live == mask;
          exit_lanes(warp, current, mask);
          if (last) return Stop::exited;
          if (!reload(pick(warp))) return Stop::waiting;
          continue;
        }
        case Kind::branch_index:
          branch_index(warp, current, op, mask);
          if (!reload(pick(warp))) return Stop::waiting;
          continue;
        case Kind::sleep:
        case Kind::barrier:
        case Kind::warp_sync:
        case Kind::exchange:
        case Kind::cluster_arrive:
        case Kind::cluster_wait:
        case Kind::group_wait:
          waits = true;
          break;
        case Kind::alu:
        case Kind::special:
        case Kind::branch:
          break;
      }
      if (waits) {
        // Lanes that the guard leaves out go on by themselves.
        if (mask != split.mask) detach(warp, current, warp.splits[current].mask & ~mask, pc + 1);
        switch (op.kind) {
          case Kind::barrier:
            barrier(warp, current, op);
            break;
          case Kind::warp_sync:
            warp_sync(warp, current, op);
            break;
          case Kind::exchange:
            exchange(warp, current, op);
            break;
          case Kind::cluster_arrive:
            cluster_arrive(warp, mask, op.immediate == 1);
            ++warp.splits[current].pc;
            break;
          case Kind::cluster_wait:
            cluster_wait(warp, current, mask);
            break;
          case Kind::group_wait:
            if (group_wait(warp, current, op, mask)) ++warp.splits[current].pc;
            break;
          default: {  // sleep
            const std::uint32_t nanoseconds =
                words(warp, op.a)[static_cast<std::uint32_t>(std::countr_zero(mask))];
            Split& sleeper = warp.splits[current];
            sleeper.state = SplitState::asleep;
            sleeper.wake = clock_.now + std::min<std::uint32_t>(nanoseconds, 1000000);
            ++sleeper.pc;
            ++sleepers_;
            break;
          }
        }
        // Splits may have merged or moved: choose anew.
        if (!reload(pick(warp))) return Stop::waiting;
        settled = warp.splits.size() == 1;
        continue;
      }
      const std::uint32_t passed = (split.mask & ~mask) | outcome.completed;
      if (passed == split.mask) {
        ++pc;
        split.pc = pc;
      } else if (passed == 0) {
        ++split.turn;
        return Stop::blocked;
      } else {
        detach(warp, current, passed, pc + 1);
        ++warp.splits[current].turn;
        return outcome.completed == 0 ? Stop::blocked : Stop::quantum;
      }
      if (outcome.yield) {
        ++split.turn;
        return Stop::yielded;
      }
      if (is_access && --accesses == 0) {
        return Stop::quantum;
      }
    }
  } catch (const Fault& fault) {
    account();
    raise(fault, warp, pc);
  }
  account();
  return Stop::waiting;
}

}  // namespace ringfence::ptx

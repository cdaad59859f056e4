// The interpreter's loop.

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

// What a warp may have to wait for others at.
bool waits(Kind kind) {
  return kind == Kind::sleep || kind == Kind::barrier || kind == Kind::warp_sync ||
         kind == Kind::exchange || kind == Kind::cluster_arrive || kind == Kind::cluster_wait ||
         kind == Kind::group_wait;
}

// What counts against a quantum's accesses.
bool is_access(Kind kind) {
  return kind == Kind::memory || kind == Kind::fence || kind == Kind::copy_wait;
}

std::uint32_t lanes_in(std::uint32_t mask) {
  return static_cast<std::uint32_t>(std::popcount(mask));
}

}  // namespace

// A warp while it runs.
struct Execution::State::Turn {
  Warp& warp;
  std::size_t split;       // which of its splits does
  std::uint32_t pc;        // where that is; its own pc is behind where only registers have changed
  std::uint32_t standing;  // its lanes
  std::uint32_t mask;      // of these, those that the guard of the instruction at pc leaves
  bool settled;            // no other split can be there too
  bool closed;             // registers alone decided what was done so far
  std::uint32_t accesses;  // of these and of jumps back, so many are left
  std::uint32_t back_edges;
};

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

void Execution::State::launch_trigger(Warp& warp, std::uint32_t mask, std::uint32_t pc) {
  memory_.before_trigger(agents(warp, mask));
  const auto met = std::exchange(warp.met, std::nullopt);
  memory_.launch_dependents(agents(warp, mask), next_triggers(*warp.block),
                            met && leads_to_trigger(*met), pc);
}

// False: nothing of the warp is ready.
bool Execution::State::take(Turn& turn, std::size_t split) {
  turn.split = split;
  if (split == turn.warp.splits.size()) return false;
  turn.pc = turn.warp.splits[split].pc;
  turn.standing = turn.warp.splits[split].mask;
  turn.settled = turn.warp.splits.size() == 1;
  return true;
}

std::optional<Stop> Execution::State::take_next(Turn& turn) {
  if (!take(turn, pick(turn.warp))) return Stop::waiting;
  return std::nullopt;
}

std::optional<Stop> Execution::State::run_exit(Turn& turn, std::uint32_t mask) {
  const bool last = turn.warp.live == mask;
  exit_lanes(turn.warp, turn.split, mask);
  if (last) return Stop::exited;
  return take_next(turn);
}

// The lanes have jumped back, to turn.pc; `done`: warp instructions that are not accounted for yet.
// Whether that was the quantum's last jump.
bool Execution::State::jumped_back(Turn& turn, std::uint32_t lanes, std::uint64_t done) {
  if (config_.instruction_budget != 0 &&
      counts_.warp_instructions + done > config_.instruction_budget) {
    throw Fault(FaultKind::budget,
                "the budget of " + std::to_string(config_.instruction_budget) +
                    " warp instructions is used up: endless loop?",
                first_lane(lanes));
  }
  if (--turn.back_edges != 0) return false;
  if (turn.closed) look_for_end(turn.warp, turn.standing, turn.pc);
  Split& split = turn.warp.splits[turn.split];
  split.pc = turn.pc;
  ++split.turn;
  return true;
}

// Executes what touches registers alone, up to an instruction that does more, or to the end. What
// the loop needs of the turn is in registers of its own meanwhile.
std::optional<Stop> Execution::State::run_registers(Turn& turn) {
  Warp& warp = turn.warp;
  const Op* const ops = program_.ops.data();
  const auto end = static_cast<std::uint32_t>(program_.ops.size());
  AluContext context;
  context.bank[0] = warp.registers.get();
  context.bank[1] = constants_.get();
  context.lanes = lanes_;
  std::uint32_t pc = turn.pc;
  std::uint32_t standing = turn.standing;
  // Counted when it changes: on the oldest instruction set that is a call.
  std::uint32_t standing_count = lanes_in(standing);
  bool settled = turn.settled;
  std::uint64_t done = 0;
  std::uint64_t threads = 0;
  std::optional<Stop> stop;
  try {
    for (;;) {
      if (!settled && program_.block_start[pc] != 0) {
        warp.splits[turn.split].pc = pc;
        if (!take(turn, settle(warp, turn.split))) {
          stop = Stop::waiting;
          break;
        }
        pc = turn.pc;
        standing = turn.standing;
        standing_count = lanes_in(standing);
        settled = turn.settled;
      }
      if (pc >= end) {
        turn.mask = standing;
        break;
      }
      const Op& op = ops[pc];
      std::uint32_t mask = standing;
      if (op.guard) {
        const std::uint32_t p = predicate(warp, op.guard);
        mask &= op.guard_negated ? ~p : p;
      }
      ++done;
      threads += mask == standing ? standing_count : lanes_in(mask);
      if (op.kind == Kind::alu) {
        if (mask != 0) compute(context, warp, op, mask);
        ++pc;
      } else if (mask == 0) {
        if (op.kind != Kind::branch && program_.rounds != nullptr &&
            program_.rounds->has_effect(pc)) {
          ++warp.block->passed;
        }
        ++pc;
      } else if (op.kind == Kind::branch) {
        const bool backward = op.detail <= pc;
        if (mask != standing) {
          warp.splits[turn.split].pc = op.detail;
          detach(warp, turn.split, standing & ~mask, pc + 1);
          standing = mask;
          standing_count = lanes_in(mask);
          settled = false;
        }
        pc = op.detail;
        if (backward) {
          turn.pc = pc;
          turn.standing = standing;
          if (jumped_back(turn, mask, done)) {
            stop = Stop::quantum;
            break;
          }
        }
      } else if (op.kind == Kind::special) {
        turn.closed = false;
        warp.rounds = 0;
        special(warp, op, mask);
        ++pc;
      } else {
        turn.mask = mask;
        break;
      }
    }
  } catch (...) {
    turn.pc = pc;
    account(done, threads);
    throw;
  }
  turn.pc = pc;
  turn.standing = standing;
  turn.settled = settled;
  account(done, threads);
  return stop;
}

// Of an instruction that needs no other lanes of the warp: which lanes have completed it.
Execution::State::Outcome Execution::State::perform(Turn& turn, const Op& op) {
  Warp& warp = turn.warp;
  const std::uint32_t mask = turn.mask;
  const std::uint32_t pc = turn.pc;
  switch (op.kind) {
    case Kind::memory:
      return memory_op(warp, op, pc, mask, turn.standing);
    case Kind::copy_wait:
      return copy_wait(warp, op, mask);
    case Kind::mbarrier:
      return mbarrier(warp, op, pc, mask, turn.standing);
    case Kind::launch_wait:
      return {memory_.dependencies_met(agents(warp, mask)) ? mask : 0, false};
    case Kind::fence:
      if (warp.block->races && !models_shared_ &&
          program_.fences[op.detail].proxy == Proxy::async) {
        warp.block->races->fence_proxy(in_cluster(warp));
      }
      memory_.fence(agents(warp, mask), program_.fences[op.detail], pc);
      break;
    case Kind::copy_async:
      copy_async(warp, op, pc, mask);
      break;
    case Kind::copy_commit:
      copy_commit(warp, op, mask);
      break;
    case Kind::launch_trigger:
      launch_trigger(warp, mask, pc);
      break;
    case Kind::active_mask:
      each_lane(mask, [&](std::uint32_t lane) { words(warp, op.d)[lane] = mask; });
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
    case Kind::alu_watched: {
      AluContext context;
      context.bank[0] = warp.registers.get();
      context.bank[1] = constants_.get();
      context.lanes = lanes_;
      compute(context, warp, op, mask);
      break;
    }
    case Kind::print:
      print(warp, op, mask);
      break;
    case Kind::assert_fail:
      assert_fail(warp, op, mask);
    case Kind::trap:
      trap(warp, op, pc, mask);
    default:
      break;
  }
  return {mask, false};
}

// Of one that may have to wait for others: lanes that its guard leaves out go on by themselves.
void Execution::State::meet(Turn& turn, const Op& op) {
  Warp& warp = turn.warp;
  const std::size_t split = turn.split;
  const std::uint32_t mask = turn.mask;
  if (mask != turn.standing) detach(warp, split, turn.standing & ~mask, turn.pc + 1);
  switch (op.kind) {
    case Kind::barrier:
      return barrier(warp, split, op);
    case Kind::warp_sync:
      return warp_sync(warp, split, op);
    case Kind::exchange:
      return exchange(warp, split, op);
    case Kind::cluster_arrive:
      cluster_arrive(warp, mask, op.immediate == 1);
      ++warp.splits[split].pc;
      return;
    case Kind::cluster_wait:
      return cluster_wait(warp, split, mask);
    case Kind::group_wait:
      if (group_wait(warp, split, op, mask)) ++warp.splits[split].pc;
      return;
    default: {  // sleep
      const std::uint32_t nanoseconds = words(warp, op.a)[first_lane(mask)];
      Split& sleeper = warp.splits[split];
      sleeper.state = SplitState::asleep;
      sleeper.wake = clock_.now + std::min<std::uint32_t>(nanoseconds, 1000000);
      ++sleeper.pc;
      ++sleepers_;
    }
  }
}

// Executes the instruction at hand, which does more than compute. From here on the split's own
// record is what counts.
std::optional<Stop> Execution::State::run_effect(Turn& turn) {
  Warp& warp = turn.warp;
  const std::uint32_t pc = turn.pc;
  warp.splits[turn.split].pc = pc;
  if (pc >= program_.ops.size()) return run_exit(turn, turn.standing);
  const Op& op = program_.ops[pc];
  const std::uint32_t mask = turn.mask;
  turn.closed = false;
  warp.rounds = 0;
  warp.idle = 0;
  if (op.kind != Kind::launch_trigger) warp.met.reset();
  warp.effects += program_.looks->has_effect(pc) ? 1 : 0;
  warp.block->acts += is_act(op, pc) ? 1 : 0;
  if (!program_.watch_of.empty()) watch(warp, pc);
  if (of_whole_warp(op.kind) && mask == turn.standing && !gather(warp, turn.split)) {
    return take_next(turn);
  }
  if (op.kind == Kind::exit) return run_exit(turn, mask);
  if (op.kind == Kind::branch_index) {
    branch_index(warp, turn.split, op, mask);
    return take_next(turn);
  }
  if (waits(op.kind)) {
    meet(turn, op);
    return take_next(turn);  // splits may have merged or moved
  }
  const Outcome outcome = perform(turn, op);
  Split& split = warp.splits[turn.split];
  const std::uint32_t passed = (split.mask & ~mask) | outcome.completed;
  if (passed == 0) {
    ++split.turn;
    return Stop::blocked;
  }
  if (passed != split.mask) {
    detach(warp, turn.split, passed, pc + 1);
    ++warp.splits[turn.split].turn;
    return outcome.completed == 0 ? Stop::blocked : Stop::quantum;
  }
  split.pc = ++turn.pc;
  if (outcome.yield) {
    ++split.turn;
    return Stop::yielded;
  }
  if (is_access(op.kind) && --turn.accesses == 0) return Stop::quantum;
  return std::nullopt;
}

Stop Execution::State::run_warp(Warp& warp, std::size_t split, const Quantum& quantum) {
  const Split& s = warp.splits[split];
  Turn turn{warp,
            split,
            s.pc,
            s.mask,
            s.mask,
            warp.splits.size() == 1,
            true,
            quantum.memory_accesses,
            quantum.back_edges};
  try {
    for (;;) {
      if (const std::optional<Stop> stop = run_registers(turn)) return *stop;
      if (const std::optional<Stop> stop = run_effect(turn)) return *stop;
    }
  } catch (const Fault& fault) {
    raise(fault, warp, turn.pc);
  }
}

}  // namespace ringfence::ptx

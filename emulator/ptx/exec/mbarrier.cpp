// mbarriers: objects beside shared memory, keyed by their offset, since their bits are opaque.

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "emulator/ptx/error.hpp"
#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/exec/trial.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

// Whether some of the numbers make that sum.
bool some_sum_to(const std::vector<std::uint32_t>& numbers, std::int64_t sum) {
  std::vector<bool> made(static_cast<std::size_t>(sum) + 1);
  made[0] = true;
  for (const std::uint32_t n : numbers) {
    for (std::size_t at = made.size(); at-- > n;) {
      if (made[at - n]) made[at] = true;
    }
  }
  return made.back();
}

}  // namespace

Mbarrier& Execution::State::mbarrier_at(Warp& warp, std::uint64_t address, std::uint32_t lane) {
  Block& owner = shared_owner(warp, address, lane);
  const auto offset = static_cast<std::uint32_t>(address & kOffsetMask);
  const auto it = owner.mbarriers.find(offset);
  if (it == owner.mbarriers.end()) {
    throw Fault(FaultKind::uninitialised_barrier,
                "no mbarrier was initialised at shared byte " + std::to_string(offset), lane);
  }
  return it->second;
}

void Execution::State::mbarrier_check(Mbarrier& barrier) {
  if (barrier.pending == 0 && barrier.transactions < 0 &&
      some_sum_to(barrier.came, -barrier.transactions)) {
    // Had they come a little later, the phase would be complete without them.
    throw Fault(FaultKind::barrier_misuse,
                std::to_string(-barrier.transactions) +
                    " bytes complete in a phase of an mbarrier that does not expect them");
  }
  if (barrier.pending != 0 || barrier.transactions != 0) return;
  ++barrier.phase;
  barrier.awaited = false;
  barrier.came.clear();
  barrier.pending = barrier.expected;
  barrier.ended_by = std::exchange(barrier.bytes, std::nullopt);
  barrier.looks.clear();
  if (barrier.before != 0) memory_.retire(barrier.before);
  barrier.before = std::exchange(barrier.previous, barrier.token);
  barrier.before_clock = std::move(barrier.previous_clock);
  barrier.previous_clock = barrier.clock;
  barrier.token = next_token_++;
}

// For the race check an init is a write of the object, and every other use a read.
void Execution::State::check_init(Warp& warp, std::uint64_t address, std::uint32_t lane,
                                  std::uint32_t pc, bool writes, bool inits) {
  SharedRaces* const races = warp.block->races;
  if (races == nullptr || !models_shared_) return;
  SharedAccess access{in_cluster(warp), lane, writes};
  access.op = pc;
  const SharedMoments moments = memory_.moments(agents(warp, 1U << lane));
  access.time = moments.time[lane];
  access.level = moments.level;
  if (inits) {
    // So that fence.mbarrier_init can publish it alone.
    access.engine = true;
    std::tie(access.thread, access.time) = memory_.initialise(agents(warp, 1U << lane));
  }
  const auto race = races->access(in_cluster_memory(warp, address), 8, access);
  if (!race) return;
  const std::uint32_t threads = warps_ * kLanes;
  const Block& home = shared_owner(warp, address, lane);
  const auto at = home.mbarriers.find(static_cast<std::uint32_t>(address & kOffsetMask));
  OtherAccess other;
  if (!race->other_async) {
    other.block = warp.block->cluster->blocks[race->other / threads]->index;
    other.thread = race->other % threads;
  } else if (at != home.mbarriers.end()) {
    other.block = at->second.init_block;
    other.thread = at->second.init_thread;
  }
  other.instruction = race->other_op;
  other.kind = race->other_wrote ? OtherAccess::Kind::write : OtherAccess::Kind::read;
  other.place = shared_place(home.index, address & kOffsetMask);
  const std::string what = one_line(program_.function->instructions[race->other_op].text);
  Fault fault(FaultKind::uninitialised_barrier,
              "nothing orders this after '" + what + "' (line " +
                  std::to_string(program_.ops[race->other_op].line) + ") by thread " +
                  std::to_string(other.thread) + " of block " + std::to_string(other.block) +
                  ", of the mbarrier at shared byte " + std::to_string(address & kOffsetMask),
              lane);
  fault.set_other(other);
  throw fault;
}

void Execution::State::changed(Warp& warp, std::uint64_t address, std::uint32_t lane,
                               std::uint64_t joined, bool arrives, bool raises) {
  const Block& owner = shared_owner(warp, address, lane);
  BarrierStep step;
  step.mbarrier = true;
  step.place = shared_place(owner.index, address & kOffsetMask);
  step.joined = static_cast<std::uint32_t>(joined);
  step.completed = static_cast<std::uint32_t>(mbarrier_at(warp, address, lane).phase);
  step.arrives = arrives;
  step.raises = raises;
  // What the lanes of one instruction do is one step.
  for (BarrierStep& s : steps_) {
    if (s.place == step.place) {
      s = step;
      return;
    }
  }
  steps_.push_back(step);
}

void Execution::State::arrived(SyncToken token, std::uint32_t lane, const SyncOrder& order) {
  for (Arrived& a : arrived_) {
    if (a.token == token && a.order == order) {
      a.lanes |= 1U << lane;
      return;
    }
  }
  arrived_.push_back({token, 1U << lane, order});
}

// PTX ISA 9.7.15.16.11 and .16: arrivals and byte counts alone reach another block's mbarrier, and
// they have to say .shared::cluster.
void Execution::State::check_form(Warp& warp, const MbarrierOp& form, std::uint64_t address,
                                  std::uint32_t lane) {
  using Form = MbarrierOp::Form;
  const Block& owner = shared_owner(warp, address, lane);
  if (&owner == warp.block) return;
  const bool may = form.form == Form::arrive || form.form == Form::arrive_drop ||
                   form.form == Form::arrive_expect_tx || form.form == Form::expect_tx ||
                   form.form == Form::complete_tx;
  if (may && form.remote) return;
  throw Fault(
      FaultKind::barrier_misuse,
      std::string(may ? "without .shared::cluster this" : "this") +
          " is for an mbarrier of the thread's own block, and the address is one of block " +
          std::to_string(owner.index) + " (shared byte " + std::to_string(address & kOffsetMask) +
          ")",
      lane);
}

// The step comes first: it is part of what an arrival hands on.
void Execution::State::tell_steps(Warp& warp, std::uint32_t mask) {
  for (const BarrierStep& step : steps_) memory_.barrier_step(agents(warp, mask), step);
  steps_.clear();
  for (const Arrived& a : arrived_) {
    memory_.arrive(a.token, agents(warp, a.lanes), false, a.order);
  }
  arrived_.clear();
  for (const Completed& c : completed_) {
    memory_.complete(c.token, agents(warp, 1U << c.lane), c.engine, c.time, c.block);
  }
  completed_.clear();
}

std::optional<AwaitedPhase> Execution::State::awaited_phase(std::uint32_t block,
                                                            std::uint32_t warp) const {
  const auto at = live_blocks_.find(block);
  if (at == live_blocks_.end()) return {};
  const Warp& w = at->second->warps[warp];
  for (const Split& split : w.splits) {
    if (split.state != SplitState::ready || split.pc >= program_.ops.size()) continue;
    const Op& op = program_.ops[split.pc];
    if (op.kind != Kind::mbarrier) continue;
    const MbarrierOp& form = program_.mbarriers[op.detail];
    std::array<std::uint64_t, kLanes> address;
    addresses(w, op.a, form.offset, form.wide_address, split.mask, address);
    const std::uint32_t place = shared_offset(address[first_lane(split.mask)]);
    const auto found = at->second->mbarriers.find(place);
    if (found == at->second->mbarriers.end()) continue;
    const Mbarrier& barrier = found->second;
    return AwaitedPhase{place, barrier.phase, barrier.pending, barrier.expected,
                        barrier.transactions};
  }
  return {};
}

std::uint32_t Execution::State::phase_named(const Warp& warp, const Op& op,
                                            std::uint32_t lane) const {
  return program_.mbarriers[op.detail].parity ? words(warp, op.b)[lane] & 1U
                                              : static_cast<std::uint32_t>(longs(warp, op.b)[lane]);
}

// Of a phase that these threads have seen complete.
void Execution::State::depart_from(Warp& warp, const MbarrierOp& form, const Mbarrier& barrier,
                                   SyncToken phase, const WarpClock& clock, std::uint32_t mask) {
  SyncOrder order = form.order;
  order.open = !form.has_scope && barrier.remote;
  if (phase != 0) memory_.depart(phase, agents(warp, mask), order);
  if (warp.block->races) warp.block->races->take(in_cluster(warp), clock);
}

Execution::State::Outcome Execution::State::look_at_phase(Warp& warp, const Op& op,
                                                          std::uint32_t pc, std::uint32_t mask,
                                                          std::uint32_t standing) {
  const MbarrierOp& form = program_.mbarriers[op.detail];
  Outcome outcome{mask, false};
  WarpLookahead lookahead(*this, warp, pc);
  std::array<std::uint64_t, kLanes> at;
  addresses(warp, op.a, form.offset, form.wide_address, mask, at);
  const auto phase_of = [&](std::uint32_t lane) { return phase_named(warp, op, lane); };
  std::uint32_t truth = 0;
  for (std::uint32_t left = mask; left != 0;) {
    // Lanes that look at the same phase see the same.
    const std::uint32_t first = first_lane(left);
    const std::uint32_t address = shared_offset(at[first]);
    std::uint32_t group = 0;
    each_lane(left, [&](std::uint32_t lane) {
      if (shared_offset(at[lane]) == address && phase_of(lane) == phase_of(first)) {
        group |= 1U << lane;
      }
    });
    left &= ~group;
    plain(warp, Space::shared, address, 8, first);
    check_form(warp, form, address, first);
    each_lane(group, [&](std::uint32_t lane) { check_init(warp, address, lane, pc, false); });
    Mbarrier& barrier = mbarrier_at(warp, address, first);
    const bool passed =
        form.parity ? (barrier.phase & 1U) != phase_of(first) : barrier.phase > phase_of(first);
    if (!form.parity && barrier.phase > std::uint64_t{phase_of(first)} + 1) {
      // PTX ISA 9.7.15.16.19.
      throw Fault(FaultKind::barrier_misuse,
                  "a wait with the state of phase " + std::to_string(phase_of(first)) +
                      " of an mbarrier that has completed phase " +
                      std::to_string(barrier.phase - 1),
                  first);
    }
    BarrierLook look{shared_place(shared_owner(warp, address, first).index, address & kOffsetMask),
                     form.parity, phase_of(first), pc};
    Mbarrier::Looks* const looks = barrier.ended_by ? &barrier.looks[in_cluster(warp)] : nullptr;
    // Until the bytes came that completed the phase before, it was the one before that whose parity
    // had completed.
    const bool earlier = looks != nullptr && form.parity && !passed && (looks->seen & group) == 0;
    const auto comes_earlier = [&] {
      const auto [engine, time] = *barrier.ended_by;
      if (memory_.bytes_have_come(agents(warp, 1U << first), engine, time)) {
        looks->seen |= group;
        return false;
      }
      truth |= group;
      depart_from(warp, form, barrier, barrier.before, barrier.before_clock, group);
      return true;
    };
    const bool waits = repeats_look(warp, pc, first);
    const bool cycle = program_.looks->is_in_cycle(pc);
    const bool attempts = cycle && counts_attempts(warp, pc);
    const bool may_wait = waits || cycle;
    if (earlier && may_wait && comes_earlier()) continue;
    // One that missed here, and has done nothing since but come back with the same registers: the
    // look that ends the loop is as good as any.
    const bool missed = looks != nullptr && cycle && looks->missed_in(pc, state_of(warp, attempts));
    look.standing = standing;
    look.attempts = attempts;
    if (cycle && !missed) look.lookahead = &lookahead;
    using Look = GlobalMemory::Look;
    Look seen = memory_.look(agents(warp, group), look, waits, passed);
    if (seen == Look::complete && looks != nullptr) {
      const auto [engine, time] = *barrier.ended_by;
      const bool come = waits || missed || (looks->seen & group) != 0 ||
                        memory_.bytes_have_come(agents(warp, 1U << first), engine, time);
      if (come) {
        looks->seen |= group;
      } else {
        if (cycle) looks->missed[pc] = state_of(warp, attempts);
        seen = Look::incomplete;
      }
    }
    // A look that is a step in any case asks behind it, as one that finds the phase complete does.
    if (earlier && !may_wait && comes_earlier()) continue;
    if (seen == Look::later) outcome.completed &= ~group;
    if (seen == Look::incomplete) outcome.yield = true;
    if (seen != Look::complete) continue;
    truth |= group;
    passed_phase(warp, address & kOffsetMask, barrier.phase, group);
    barrier.awaited = true;
    depart_from(warp, form, barrier, barrier.previous, barrier.previous_clock, group);
  }
  if (op.e) {
    *words(warp, op.e) = (predicate(warp, op.e) & ~outcome.completed) | truth;
  }
  return outcome;
}

void Execution::State::check_arrival(const Mbarrier& barrier, std::uint32_t count,
                                     std::uint32_t address, std::uint32_t lane) {
  if (count > barrier.pending) {
    throw Fault(FaultKind::undefined, "more arrivals at an mbarrier than it expects", lane);
  }
  // PTX ISA 9.7.15.16.5.1. Any thread's wait will do.
  if (barrier.awaited) return;
  throw Fault(FaultKind::barrier_misuse,
              "an arrival in phase " + std::to_string(barrier.phase) +
                  " of the mbarrier at shared byte " + std::to_string(address & kOffsetMask) +
                  ": no wait has seen the phase before complete",
              lane);
}

// cp.async.mbarrier.arrive: the arrival is made by the thread's earlier copies when they end, and
// hands on their accesses alone (PTX ISA 9.7.15.16.18).
void Execution::State::arrive_by_copies(Warp& warp, Mbarrier& barrier, std::uint32_t lane) {
  check_arrival(barrier, 1, 0, lane);
  if (!warp.async_groups.empty()) {
    for (const auto& group : warp.async_groups[lane]) {
      for (const PendingCopy& copy : group) {
        completed_.push_back(
            {barrier.token, lane, copy.moment.modelled, copy.moment.ended, warp.block->index});
        barrier.bytes = {copy.moment.modelled, copy.moment.ended};
      }
    }
  }
  --barrier.pending;
  mbarrier_check(barrier);
}

void Execution::State::init_mbarrier(Warp& warp, const Op& op, std::uint32_t address,
                                     std::uint32_t lane, std::uint32_t pc) {
  Mbarrier fresh;
  fresh.expected = words(warp, op.b)[lane];
  fresh.pending = fresh.expected;
  fresh.token = next_token_++;
  if (fresh.expected == 0 || fresh.expected >= (1U << 20)) {
    throw Fault(FaultKind::undefined, "an mbarrier counts 1 to 2^20 - 1 arrivals", lane);
  }
  fresh.init_block = warp.block->index;
  fresh.init_thread = warp.index * kLanes + lane;
  check_init(warp, address, lane, pc, true, true);
  warp.block->mbarriers[address] = fresh;
  changed(warp, address, lane, 0);
}

// A thread's own arrival, of `count`.
void Execution::State::arrive_at(Warp& warp, const Op& op, Mbarrier& barrier, std::uint32_t address,
                                 std::uint32_t lane, std::uint32_t count) {
  const MbarrierOp& form = program_.mbarriers[op.detail];
  Block& block = *warp.block;
  check_arrival(barrier, count, address, lane);
  if (op.d) {
    // The state: the phase below, what is pending before this arrival above.
    longs(warp, op.d)[lane] =
        (barrier.phase & 0xFFFFFFFFU) | static_cast<std::uint64_t>(barrier.pending) << 32;
  }
  SyncOrder order = form.order;
  order.open = !form.has_scope && form.remote;
  barrier.remote = barrier.remote || &shared_owner(warp, address, lane) != &block;
  arrived(barrier.token, lane, order);
  if (block.races) block.races->give(in_cluster(warp), barrier.clock);
  barrier.pending -= count;
  mbarrier_check(barrier);
}

// cp.async.mbarrier.arrive fires when the lane's earlier cp.async are complete: where no memory
// model decides when that is, they are completed now.
void Execution::State::arrive_behind_copies(Warp& warp, const Op& op, Mbarrier& barrier,
                                            std::uint32_t address, std::uint32_t lane) {
  const bool increments = !program_.mbarriers[op.detail].no_increment;
  if (models_shared_) {
    if (increments) ++barrier.pending;
    return arrive_by_copies(warp, barrier, lane);
  }
  if (!warp.async_groups.empty()) {
    for (auto& group : warp.async_groups[lane]) {
      for (const PendingCopy& copy : group) {
        if (!complete_copy(warp, copy)) {
          throw Fault(FaultKind::undefined,
                      "the memory holds back a copy that arrives on an mbarrier", lane);
        }
      }
      group.clear();
    }
  }
  if (increments) ++barrier.pending;
  arrive_at(warp, op, barrier, address, lane, 1);
}

void Execution::State::signal_mbarrier(Warp& warp, const Op& op, std::uint32_t address,
                                       std::uint32_t lane, std::uint32_t pc) {
  using Form = MbarrierOp::Form;
  const MbarrierOp& form = program_.mbarriers[op.detail];
  Mbarrier& barrier = mbarrier_at(warp, address, lane);
  const std::uint64_t joined = barrier.phase + 1;
  visit_signal(warp, shared_owner(warp, address, lane), address, lane, pc, joined, false);
  check_init(warp, address, lane, pc, false);
  switch (form.form) {
    case Form::expect_tx:
      barrier.transactions += words(warp, op.b)[lane];
      break;
    case Form::complete_tx:
      barrier.transactions -= words(warp, op.b)[lane];
      mbarrier_check(barrier);
      break;
    case Form::arrive_expect_tx:
      barrier.transactions += words(warp, op.b)[lane];
      arrive_at(warp, op, barrier, address, lane, 1);
      break;
    case Form::arrive_drop: {
      const std::uint32_t count = form.has_count ? words(warp, op.b)[lane] : 1;
      barrier.expected -= std::min(count, barrier.expected);
      arrive_at(warp, op, barrier, address, lane, count);
      break;
    }
    case Form::async_arrive:
      arrive_behind_copies(warp, op, barrier, address, lane);
      break;
    default:
      arrive_at(warp, op, barrier, address, lane, form.has_count ? words(warp, op.b)[lane] : 1);
      break;
  }
  const bool counts = form.form != Form::expect_tx && form.form != Form::complete_tx;
  const bool raises =
      form.form == Form::expect_tx || (form.form == Form::async_arrive && !form.no_increment);
  changed(warp, address, lane, joined, counts, raises);
}

Execution::State::Outcome Execution::State::mbarrier(Warp& warp, const Op& op, std::uint32_t pc,
                                                     std::uint32_t mask, std::uint32_t standing) {
  using Form = MbarrierOp::Form;
  const MbarrierOp& form = program_.mbarriers[op.detail];
  Outcome outcome{mask, false};
  if (form.form == Form::pending_count) {
    each_lane(mask, [&](std::uint32_t lane) {
      words(warp, op.d)[lane] = static_cast<std::uint32_t>(longs(warp, op.b)[lane] >> 32);
    });
    return outcome;
  }
  memory_.before_barrier(agents(warp, mask));
  if (looks_at_phase(form.form)) return look_at_phase(warp, op, pc, mask, standing);
  std::array<std::uint64_t, kLanes> at;
  addresses(warp, op.a, form.offset, form.wide_address, mask, at);
  each_lane(mask, [&](std::uint32_t lane) {
    const std::uint32_t address = shared_offset(at[lane]);
    plain(warp, Space::shared, address, 8, lane);
    check_form(warp, form, address, lane);
    if (form.form == Form::init) return init_mbarrier(warp, op, address, lane, pc);
    if (form.form != Form::inval) return signal_mbarrier(warp, op, address, lane, pc);
    mbarrier_at(warp, address, lane);
    check_init(warp, address, lane, pc, true);
    warp.block->mbarriers.erase(address);
  });
  tell_steps(warp, mask);
  return outcome;
}

}  // namespace ringfence::ptx

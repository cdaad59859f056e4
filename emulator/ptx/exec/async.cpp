// cp.async and mbarriers. A copy is done at its wait_group, the latest moment that the manual
// allows, so a read of the destination before the wait sees the old bytes; or when it arrives on an
// mbarrier.

#include <cstring>

#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

std::uint32_t shared_offset(std::uint64_t address) {
  if (address - kSharedWindow < kWindowBytes) address -= kSharedWindow;
  return static_cast<std::uint32_t>(address);
}
}  // namespace

bool Execution::State::complete_copy(Warp& warp, const PendingCopy& copy) {
  static const Access load4{Operation::load, Space::global, Type::b32, 4, Order::weak};
  static const Access load1{Operation::load, Space::global, Type::b8, 1, Order::weak};
  alignas(64) std::uint32_t data[4][kLanes] = {};
  const auto global = [&](const Access& access, std::uint64_t address) {
    Request request;
    request.access = &access;
    request.agents = agents(warp, 1U << copy.lane);
    request.address[copy.lane] = address;
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      request.elements[e] = reinterpret_cast<std::byte*>(data[e]);
    }
    request.instruction = copy.op;
    request.line = program_.ops[copy.op].line;
    memory_.access(request);
    return (request.completed >> copy.lane & 1U) != 0;
  };
  const auto stored = [&](std::uint64_t destination, std::uint32_t bytes) {
    std::byte* to = plain(warp, Space::shared, destination, 1, copy.lane);
    plain(warp, Space::shared, destination + bytes - 1, 1, copy.lane);
    check_shared(warp, destination, bytes, copy.lane, SharedUse::write);
    return to;
  };
  for (std::uint32_t done = 0; done < copy.bytes;) {
    const std::uint32_t left = copy.bytes - done;
    const std::uint64_t destination = copy.destination + done;
    const std::uint64_t source = copy.source + done;
    std::uint32_t piece = left >= kPiece && source % kPiece == 0 ? kPiece : 1;
    if (done >= copy.source_bytes) {
      std::memset(stored(destination, 1), 0, 1);
      piece = 1;
    } else {
      if (copy.source_bytes - done < kPiece) piece = 1;
      if (!global(piece == kPiece ? load4 : load1, source)) return false;
      std::byte* to = stored(destination, piece);
      if (piece == 1) {
        std::memcpy(to, &data[0][copy.lane], 1);
      } else {
        for (unsigned e = 0; e < 4; ++e) std::memcpy(to + 4 * e, &data[e][copy.lane], 4);
      }
    }
    done += piece;
  }
  return true;
}

void Execution::State::copy_async(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask) {
  const CopyOp& form = program_.copies[op.detail];
  if (warp.async_groups.empty()) {
    warp.async_groups.resize(kLanes);
    warp.bulk_groups.resize(kLanes);
  }
  if (form.form == CopyOp::Form::remote_store || form.form == CopyOp::Form::remote_reduce) {
    return remote_writes(warp, op, mask);
  }
  if (form.form != CopyOp::Form::async) return bulk_copies(warp, op, pc, mask);
  std::array<std::uint64_t, kLanes> to;
  std::array<std::uint64_t, kLanes> from;
  addresses(warp, op.a, form.destination_offset, form.wide_destination, mask, to);
  addresses(warp, op.b, form.source_offset, form.wide_source, mask, from);
  each_lane(mask, [&](std::uint32_t lane) {
    PendingCopy copy;
    copy.op = pc;
    copy.lane = lane;
    copy.bytes = form.bytes;
    copy.source_bytes =
        form.has_source_size ? std::min(words(warp, op.c)[lane], copy.bytes) : copy.bytes;
    copy.destination = shared_offset(to[lane]);
    copy.source = from[lane];
    if (copy.destination % form.bytes != 0 || copy.source % form.bytes != 0) {
      throw Fault(FaultKind::misaligned,
                  "an asynchronous copy needs addresses and size aligned to " +
                      std::to_string(form.bytes) + " bytes",
                  lane);
    }
    auto& groups = warp.async_groups[lane];
    if (groups.empty()) groups.emplace_back();
    groups.back().push_back(copy);
  });
}

void Execution::State::copy_commit(Warp& warp, const Op& op, std::uint32_t mask) {
  if (warp.async_groups.empty()) {
    warp.async_groups.resize(kLanes);
    warp.bulk_groups.resize(kLanes);
  }
  each_lane(mask, [&](std::uint32_t lane) {
    const auto commit = [](auto& groups) {
      if (groups.empty()) groups.emplace_back();
      groups.emplace_back();
    };
    if (op.immediate == 1) {
      commit(warp.bulk_groups[lane]);
    } else {
      commit(warp.async_groups[lane]);
    }
  });
}

Execution::State::Outcome Execution::State::copy_wait(Warp& warp, const Op& op,
                                                      std::uint32_t mask) {
  Outcome outcome{mask, false};
  if (warp.async_groups.empty()) return outcome;
  if (op.detail == 1) {
    each_lane(mask, [&](std::uint32_t lane) {
      auto& groups = warp.bulk_groups[lane];
      while (groups.size() > op.immediate + 1) {
        for (const AsyncMoment& moment : groups.front()) {
          if (warp.block->races) warp.block->races->wait_async(in_cluster(warp), moment);
        }
        groups.pop_front();
      }
    });
    return outcome;
  }
  each_lane(mask, [&](std::uint32_t lane) {
    auto& groups = warp.async_groups[lane];
    // The open group at the end is not committed: it counts only for wait_all.
    const std::uint64_t open = op.detail == 2 ? 0 : 1;
    while (groups.size() > op.immediate + open) {
      std::vector<PendingCopy>& oldest = groups.front();
      while (!oldest.empty()) {
        if (!complete_copy(warp, oldest.front())) {
          outcome.completed &= ~(1U << lane);
          return;
        }
        oldest.erase(oldest.begin());
      }
      groups.pop_front();
    }
  });
  return outcome;
}

Mbarrier& Execution::State::mbarrier_at(Warp& warp, std::uint64_t address, std::uint32_t lane) {
  Block& owner = shared_owner(warp, address, lane);
  const auto offset = static_cast<std::uint32_t>(address & ((1U << kSharedBits) - 1));
  const auto it = owner.mbarriers.find(offset);
  if (it == owner.mbarriers.end()) {
    throw Fault(FaultKind::undefined,
                "no mbarrier was initialised at shared byte " + std::to_string(offset), lane);
  }
  return it->second;
}

void Execution::State::mbarrier_check(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.transactions != 0) return;
  ++barrier.phase;
  ++events_;
  barrier.pending = barrier.expected;
  barrier.unseen = barrier.bytes;
  barrier.bytes = false;
  if (barrier.previous != 0) memory_.retire(barrier.previous);
  barrier.previous = barrier.token;
  barrier.previous_clock = barrier.clock;
  barrier.token = next_token_++ | kPhaseToken;
}

std::optional<AwaitedPhase> Execution::State::awaited_phase(std::uint32_t block,
                                                            std::uint32_t warp) const {
  const auto at = live_blocks_.find(block);
  if (at == live_blocks_.end()) return {};
  const Warp& w = at->second->warps[warp];
  for (const Split& split : w.splits) {
    // It stands behind the instruction that found the phase incomplete.
    if (split.state != SplitState::ready || split.pc == 0) continue;
    const Op& op = program_.ops[split.pc - 1];
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

Execution::State::Outcome Execution::State::mbarrier(Warp& warp, const Op& op, std::uint32_t mask) {
  using Form = MbarrierOp::Form;
  const MbarrierOp& form = program_.mbarriers[op.detail];
  Outcome outcome{mask, false};
  if (form.form == Form::pending_count) {
    each_lane(mask, [&](std::uint32_t lane) {
      words(warp, op.d)[lane] = static_cast<std::uint32_t>(longs(warp, op.b)[lane] >> 32);
    });
    return outcome;
  }
  std::array<std::uint64_t, kLanes> at;
  addresses(warp, op.a, form.offset, form.wide_address, mask, at);
  std::uint32_t truth = 0;
  const Mbarrier* missed = nullptr;  // by the lanes' look, all of it
  each_lane(mask, [&](std::uint32_t lane) {
    const std::uint32_t address = shared_offset(at[lane]);
    plain(warp, Space::shared, address, 8, lane);
    Block& block = *warp.block;
    if (form.form == Form::init) {
      Mbarrier fresh;
      fresh.expected = words(warp, op.b)[lane];
      fresh.pending = fresh.expected;
      fresh.token = next_token_++ | kPhaseToken;
      if (fresh.expected == 0 || fresh.expected >= (1U << 20)) {
        throw Fault(FaultKind::undefined, "an mbarrier counts 1 to 2^20 - 1 arrivals", lane);
      }
      block.mbarriers[address] = fresh;
      return;
    }
    if (form.form == Form::inval) {
      mbarrier_at(warp, address, lane);
      block.mbarriers.erase(address);
      return;
    }
    Mbarrier& barrier = mbarrier_at(warp, address, lane);
    const auto arrive = [&](std::uint32_t count) {
      if (count > barrier.pending) {
        throw Fault(FaultKind::undefined, "more arrivals at an mbarrier than it expects", lane);
      }
      if (op.d) {
        // The state: the phase below, what is pending before this arrival above.
        longs(warp, op.d)[lane] =
            (barrier.phase & 0xFFFFFFFFU) | static_cast<std::uint64_t>(barrier.pending) << 32;
      }
      memory_.arrive(barrier.token, agents(warp, 1U << lane));
      if (block.races) block.races->give(in_cluster(warp), barrier.clock);
      barrier.pending -= count;
      mbarrier_check(barrier);
    };
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
        arrive(1);
        break;
      case Form::arrive:
        arrive(form.has_count ? words(warp, op.b)[lane] : 1);
        break;
      case Form::arrive_drop: {
        const std::uint32_t count = form.has_count ? words(warp, op.b)[lane] : 1;
        barrier.expected -= std::min(count, barrier.expected);
        arrive(count);
        break;
      }
      case Form::async_arrive: {
        // Fires when the lane's earlier cp.async are complete: complete them now.
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
        if (!form.no_increment) ++barrier.pending;
        arrive(1);
        break;
      }
      default: {  // test_wait, try_wait
        bool passed = form.parity ? (barrier.phase & 1U) != (words(warp, op.b)[lane] & 1U)
                                  : barrier.phase > (longs(warp, op.b)[lane] & 0xFFFFFFFFU);
        if (passed && barrier.unseen) {
          barrier.unseen = false;
          if (!memory_.bytes_have_come(agents(warp, 1U << lane))) missed = &barrier;
          ++events_;  // another look finds more
        }
        passed = passed && missed != &barrier;
        if (passed) {
          truth |= 1U << lane;
          if (barrier.previous != 0) memory_.depart(barrier.previous, agents(warp, 1U << lane));
          if (block.races) block.races->take(in_cluster(warp), barrier.previous_clock);
        }
        break;
      }
    }
  });
  if (form.form == Form::test_wait || form.form == Form::try_wait) {
    if (op.e) *words(warp, op.e) = (predicate(warp, op.e) & ~mask) | truth;
    outcome.yield = truth != mask;
  }
  return outcome;
}

}  // namespace ringfence::ptx

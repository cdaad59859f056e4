// cp.async. A copy is done at its wait_group, the latest moment that the manual
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

bool Execution::State::complete_copy(Warp& warp, const PendingCopy& copy) try {
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
  const auto store = [&](std::uint64_t destination, std::uint32_t bytes, std::byte* from) {
    shared_piece(warp, destination, bytes, copy.lane, copy.op, from, true);
  };
  for (std::uint32_t done = 0; done < copy.bytes;) {
    const std::uint32_t left = copy.bytes - done;
    const std::uint64_t destination = copy.destination + done;
    const std::uint64_t source = copy.source + done;
    std::uint32_t piece = left >= kPiece && source % kPiece == 0 ? kPiece : 1;
    if (done >= copy.source_bytes) {
      std::byte zero{0};
      store(destination, 1, &zero);
      piece = 1;
    } else {
      if (copy.source_bytes - done < kPiece) piece = 1;
      if (!global(piece == kPiece ? load4 : load1, source)) return false;
      std::uint32_t words[4];
      for (unsigned e = 0; e < 4; ++e) words[e] = data[e][copy.lane];
      store(destination, piece, reinterpret_cast<std::byte*>(words));
    }
    done += piece;
  }
  return true;
} catch (Fault& fault) {
  // Told as the copy, which is what names the bytes; not as the wait for it.
  fault.set_instruction(copy.op);
  throw;
}

void Execution::State::copy_async(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask) {
  const CopyOp& form = program_.copies[op.detail];
  if (warp.async_groups.empty()) {
    warp.async_groups.resize(kLanes);
    warp.bulk_groups.resize(kLanes);
  }
  if (form.form == CopyOp::Form::remote_store || form.form == CopyOp::Form::remote_reduce) {
    return remote_writes(warp, op, pc, mask);
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

}  // namespace ringfence::ptx

// cp.async. A copy is done at its wait_group, the latest moment that the manual
// allows, so a read of the destination before the wait sees the old bytes; or when it arrives on an
// mbarrier.

#include <cstring>

#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {

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

// PTX ISA 9.7.10.28.3: weak accesses of the generic proxy, in nobody's program order.
void Execution::State::copy_by_engine(Warp& warp, const PendingCopy& pending) {
  BulkCopy copy;
  copy.lane = pending.lane;
  copy.op = pending.op;
  copy.async = false;
  copy.moment = pending.moment;
  std::array<std::byte, kPiece> data{};
  if (pending.source_bytes != 0) {
    BulkPart part;
    part.agents = agents(warp, 1U << pending.lane);
    part.engine = pending.moment.modelled;
    part.async = false;
    part.address = pending.source;
    part.data = std::span(data).first(pending.source_bytes);
    part.instruction = pending.op;
    part.line = program_.ops[pending.op].line;
    memory_.bulk(part);
  }
  bulk_write(warp, copy, pending.destination, data.data(), pending.bytes);
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
    if (models_shared_) {
      const bool first = groups.back().empty();
      copy.moment =
          next_engine(warp, op, 1U << lane,
                      first ? GlobalMemory::kNoEngine : groups.back().front().moment.modelled);
      copy_by_engine(warp, copy);
      end_part(warp, lane, copy.moment, true);
    }
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
  if (op.detail == 1 || op.detail == 3) {
    const bool reads = op.detail == 3;
    each_lane(mask, [&](std::uint32_t lane) {
      auto& groups = warp.bulk_groups[lane];
      // .read: what the groups read has ended, which says nothing of what they write.
      for (std::size_t g = 0; reads && g + op.immediate + 1 < groups.size(); ++g) {
        for (AsyncMoment& moment : groups[g]) {
          moment.read_seen = true;
          if (models_shared_) {
            if (moment.read != 0) {
              memory_.observe(agents(warp, 1U << lane), moment.modelled, moment.read);
            }
            moment.read = 0;
          } else if (warp.block->races) {
            warp.block->races->wait_async(in_cluster(warp), moment);
          }
        }
      }
      while (!reads && groups.size() > op.immediate + 1) {
        for (const AsyncMoment& moment : groups.front()) {
          if (models_shared_) {
            memory_.observe(agents(warp, 1U << lane), moment.modelled, moment.ended);
          } else if (warp.block->races) {
            warp.block->races->wait_async(in_cluster(warp), moment);
          }
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
        if (models_shared_) {
          const AsyncMoment& moment = oldest.front().moment;
          memory_.observe(agents(warp, 1U << lane), moment.modelled, moment.ended);
        } else if (!complete_copy(warp, oldest.front())) {
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

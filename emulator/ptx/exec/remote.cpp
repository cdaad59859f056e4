// st.async and red.async, done when they are issued, as bulk copies are. A store is an engine's for
// the race check: nobody, its thread included, may count on it before the mbarrier's phase. A
// reduction is a strong access of its thread (relaxed, by the manual): several to one place are no
// race.

#include <cstring>

#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {

// A reduction is strong (relaxed.cluster), so its line is the model's, which gets what was accessed
// there before and finds the races with that.
void Execution::State::remote_reduce(Warp& warp, const Access& access, std::uint64_t address,
                                     std::span<std::byte> operand, const BulkCopy& copy) {
  Block& owner = shared_owner(warp, address, copy.lane);
  const std::uint64_t offset = address & kOffsetMask;
  share_line(warp, owner, offset / kSharedLine);
  BulkPart part;
  part.agents = agents(warp, 1U << copy.lane);
  part.engine = copy.moment.modelled;
  part.operation = Operation::reduce;
  part.async = false;
  part.shared = true;
  part.address = shared_place(owner.index, offset);
  part.data = operand;
  part.type = access.type;
  part.combine = access.combine;
  part.scope = Scope::cluster;
  part.instruction = copy.op;
  part.line = program_.ops[copy.op].line;
  memory_.bulk(part);
}

void Execution::State::remote_writes(Warp& warp, const Op& op, std::uint32_t pc,
                                     std::uint32_t mask) {
  const CopyOp& form = program_.copies[op.detail];
  const Access& access = form.remote;
  const std::uint32_t size = size_of(access.type);
  const std::uint32_t bytes = access.bytes();
  SharedRaces* const races = warp.block->races;
  std::array<std::uint64_t, kLanes> to{};
  std::array<std::uint64_t, kLanes> barriers{};
  addresses(warp, op.a, form.destination_offset, form.wide_destination, mask, to);
  addresses(warp, op.f, form.barrier_offset, form.wide_barrier, mask, barriers);
  memory_.before_barrier(agents(warp, mask));
  each_lane(mask, [&](std::uint32_t lane) {
    const std::uint64_t address = shared_offset(to[lane]);
    const std::uint64_t signal = shared_offset(barriers[lane]);
    if (&shared_owner(warp, address, lane) != &shared_owner(warp, signal, lane)) {
      throw Fault(FaultKind::undefined,
                  "the mbarrier lies in another block's shared memory than what is written", lane);
    }
    plain(warp, Space::shared, address, bytes, lane);
    BulkCopy copy;
    copy.lane = lane;
    copy.op = pc;
    copy.async = false;  // PTX ISA 9.7.15.7: by the generic proxy
    copy.moment = next_engine(warp, op, 1U << lane);
    std::array<std::byte, 64> values{};
    for (std::uint32_t e = 0; e < access.elements; ++e) {
      std::memcpy(&values[std::size_t{e} * size],
                  place(warp, program_.extra[op.extra + e]) + lane * form.lane_bytes, size);
    }
    if (form.form == CopyOp::Form::remote_store) {
      bulk_write(warp, copy, address, values.data(), bytes);
    } else if (models_shared_) {
      remote_reduce(warp, access, address, std::span(values).first(bytes), copy);
    } else {
      MemoryOp reduction;
      reduction.access = access;
      reduction.access.operation = Operation::reduce;
      reduction.access.order = Order::relaxed;
      reduction.access.scope = Scope::cluster;
      reduction.lane_bytes = form.lane_bytes;
      Request request;
      request.access = &reduction.access;
      request.agents = agents(warp, 1U << lane);
      request.address[lane] = address;
      request.lane_bytes = form.lane_bytes;
      request.instruction = pc;
      request.line = op.line;
      for (std::uint32_t e = 0; e < access.elements; ++e) {
        request.elements[e] = place(warp, program_.extra[op.extra + e]);
      }
      if (shared_op(warp, reduction, request, 1U << lane).completed == 0) {
        throw Fault(FaultKind::undefined, "the memory holds back a reduction", lane);
      }
    }
    end_part(warp, lane, copy.moment, true);
    if (form.form == CopyOp::Form::remote_reduce && !models_shared_ && races != nullptr) {
      races->give(in_cluster(warp), mbarrier_at(warp, signal, lane).clock);
    }
    complete_bytes(warp, signal, copy, bytes);
  });
  tell_steps(warp, mask);
}

}  // namespace ringfence::ptx

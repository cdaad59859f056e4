// st.async and red.async, done when they are issued, as bulk copies are. A store is an engine's for
// the race check: nobody, its thread included, may count on it before the mbarrier's phase. A
// reduction is a strong access of its thread (relaxed, by the manual): several to one place are no
// race.

#include <cstring>

#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

std::uint64_t shared_offset(std::uint64_t address) {
  if (address - kSharedWindow < kWindowBytes) address -= kSharedWindow;
  return address & 0xFFFFFFFFU;
}

}  // namespace

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
    const AsyncMoment moment = next_engine(warp, op);
    if (form.form == CopyOp::Form::remote_store) {
      check_shared_async(warp, address, bytes, lane, moment, true, false);
      std::array<std::byte, 64> values{};
      for (std::uint32_t e = 0; e < access.elements; ++e) {
        std::memcpy(&values[std::size_t{e} * size],
                    place(warp, program_.extra[op.extra + e]) + lane * form.lane_bytes, size);
      }
      put_shared(warp, address, bytes, lane, values.data());
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
    plain(warp, Space::shared, signal, 8, lane);
    Mbarrier& barrier = mbarrier_at(warp, signal, lane);
    check_init(warp, signal, lane, pc, false);
    const std::uint64_t joined = barrier.phase + 1;
    barrier.transactions -= bytes;
    barrier.bytes = true;
    arrived(barrier.token, lane);
    if (races != nullptr) {
      if (form.form == CopyOp::Form::remote_store) {
        races->end_async(in_cluster(warp), moment, barrier.clock);
      } else {
        races->give(in_cluster(warp), barrier.clock);
      }
    }
    mbarrier_check(barrier);
    changed(warp, signal, lane, joined);
  });
  tell_steps(warp, mask);
}

}  // namespace ringfence::ptx

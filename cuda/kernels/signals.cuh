// Signals between ranks: a slot of a pad is 0 (free) or 1 (signalled).
//
//   put_signal   CAS 0 -> 1, at the peer, spinning: a slot that is still 1 has not been consumed.
//   wait_signal  CAS 1 -> 0, at the own pad, spinning: consuming frees the slot for the next round.
//
// So a pad is all zeros before and after every barrier, and barriers may follow one another on the
// same slots. Scope is system: the peers are other GPUs. The order is the caller's choice; a put
// publishes what the block wrote only if it is a release after a block barrier, and a wait protects
// the block's later reads only if it is an acquire before a block barrier.
//
// Every loop has the launch's time limit (SpinControl::timeout_ns): a thread that gives up writes a
// SpinTimeout and goes on, so the launch ends, with results that the host must throw away.
#pragma once

#include "cuda/kernels/ptx/memory.cuh"
#include "cuda/kernels/ptx/signal.cuh"
#include "cuda/kernels/spin.hpp"

namespace ringfence::cuda {

using ptx::Order;

/// Who spins where: goes into the report and the trace.
struct SpinPlace {
  uint32_t rank;
  uint32_t block;
  uint32_t peer;
  uint32_t slot;
  SignalKind kind;
};

/// The clock of one spinning thread. The limit is looked at every 256 attempts, so that a wait that
/// succeeds early never reads the timer.
class SpinWatch {
 public:
  __device__ explicit SpinWatch(const SpinControl& control) : control_(control) {}

  /// True if the time is up; the report then has an entry.
  __device__ bool expired(const SpinPlace& place, uint32_t value) {
    if (control_.timeout_ns == 0 || (++attempts_ & 255u) != 0) return false;
    const uint64_t now = ptx::globaltimer_ns();
    if (attempts_ == 256) begin_ns_ = now;
    if (now - begin_ns_ < control_.timeout_ns) return false;
    SpinReport* report = control_.report;
    const uint32_t index = atomicAdd_system(&report->count, 1u);
    if (index < SpinReport::kCapacity) {
      report->entry[index] = {place.rank, place.block, place.peer, place.slot, place.kind, value};
    }
    return true;
  }

 private:
  const SpinControl& control_;
  uint32_t attempts_ = 0;
  uint64_t begin_ns_ = 0;
};

template <Order kOrder>
__device__ __forceinline__ void put_signal(uint32_t* slot, const SpinPlace& place,
                                           const SpinControl& control) {
  static_assert(kOrder == Order::relaxed || kOrder == Order::release, "a put publishes or does not");
  SpinWatch watch(control);
  uint32_t found;
  while ((found = ptx::cas_sys<kOrder>(slot, 0u, 1u)) != 0u) {
    if (watch.expired(place, found)) return;
  }
}

template <Order kOrder>
__device__ __forceinline__ void wait_signal(uint32_t* slot, const SpinPlace& place,
                                            const SpinControl& control) {
  static_assert(kOrder == Order::relaxed || kOrder == Order::acquire, "a wait acquires or does not");
  SpinWatch watch(control);
  uint32_t found;
  while ((found = ptx::cas_sys<kOrder>(slot, 1u, 0u)) != 1u) {
    if (watch.expired(place, found)) return;
  }
}

/// The barrier of block `block` of every rank: thread t < world signals rank t and waits for rank t
/// (itself included). Slots: a put goes to pads[t][block * world + rank], a wait is at
/// pads[rank][block * world + t].
///
/// The first attempts of the put and of the wait are both under way before either's result is looked
/// at: they are at different addresses and owe one another no order, and over NVLink a put's answer
/// takes as long as the peer's signal.
///
/// No block barrier inside: the caller puts one before (what the whole block wrote must precede the
/// put) or after (the whole block must follow the wait), or both.
template <Order kPut, Order kWait>
__device__ __forceinline__ void sync_remote_blocks(uint32_t* const* pads, uint32_t rank,
                                                   uint32_t world, uint32_t block,
                                                   SignalKind put_kind,
                                                   const SpinControl& control) {
  const uint32_t t = threadIdx.x;
  if (t >= world) return;
  const SignalKind wait_kind = static_cast<SignalKind>(static_cast<uint32_t>(put_kind) + 1);
  const SpinPlace put{rank, block, t, block * world + rank, put_kind};
  const SpinPlace wait{rank, block, t, block * world + t, wait_kind};
  if (control.trace == nullptr) {
    uint32_t* const to = pads[t] + put.slot;
    uint32_t* const from = pads[rank] + wait.slot;
    const uint32_t put_found = ptx::cas_sys<kPut>(to, 0u, 1u);
    const uint32_t wait_found = ptx::cas_sys<kWait>(from, 1u, 0u);
    if (put_found != 0u) put_signal<kPut>(to, put, control);
    if (wait_found != 1u) wait_signal<kWait>(from, wait, control);
    return;
  }
  const uint64_t begin = ptx::globaltimer_ns();
  put_signal<kPut>(pads[t] + put.slot, put, control);
  const uint64_t middle = ptx::globaltimer_ns();
  wait_signal<kWait>(pads[rank] + wait.slot, wait, control);
  const uint64_t end = ptx::globaltimer_ns();
  // Four events a thread and call, each with a place of its own.
  const uint32_t phase = put_kind == SignalKind::start_put ? 0u : 2u;
  const uint64_t index = static_cast<uint64_t>(control.call) * control.trace_stride +
                         ((rank * control.blocks + block) * world + t) * 4 + phase;
  if (index + 1 < control.trace_capacity) {
    control.trace[index] = {begin, middle, rank, block, t, put.slot, put_kind, control.call};
    control.trace[index + 1] = {middle, end, rank, block, t, wait.slot, wait_kind, control.call};
  }
}

}  // namespace ringfence::cuda

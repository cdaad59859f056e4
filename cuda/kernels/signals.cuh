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
  static_assert(kOrder == Order::relaxed || kOrder == Order::release,
                "a put publishes or does not");
  SpinWatch watch(control);
  uint32_t found;
  while ((found = ptx::cas_sys<kOrder>(slot, 0u, 1u)) != 0u) {
    if (watch.expired(place, found)) return;
  }
}

template <Order kOrder>
__device__ __forceinline__ void wait_signal(uint32_t* slot, const SpinPlace& place,
                                            const SpinControl& control) {
  static_assert(kOrder == Order::relaxed || kOrder == Order::acquire,
                "a wait acquires or does not");
  SpinWatch watch(control);
  uint32_t found;
  while ((found = ptx::cas_sys<kOrder>(slot, 1u, 0u)) != 1u) {
    if (watch.expired(place, found)) return;
  }
}

/// Where thread t < world of a block puts its signal and waits for one.
struct BarrierSlots {
  uint32_t* put;
  uint32_t* wait;
};

/// The barrier of block `block` of every rank, in two halves: thread t < world signals rank t and
/// waits for rank t (itself included). Slots: a put goes to slot block * world + rank of pad t, a
/// wait is at slot block * world + t of the own pad.
///
/// put() issues the first attempts of both and looks at no result; over NVLink the put's answer
/// takes as long as the peer's signal. So what owes the barrier no order may be done between the
/// halves.
///
/// No block barrier inside: the caller puts one before the put (what the whole block wrote must
/// precede it) or after the wait (the whole block must follow it), or both.
template <Order kPut, Order kWait>
class RemoteBarrier {
 public:
  __device__ __forceinline__ RemoteBarrier(const BarrierSlots& slots, uint32_t rank, uint32_t world,
                                           uint32_t block, SignalKind put_kind,
                                           const SpinControl& control)
      : slots_(slots),
        rank_(rank),
        world_(world),
        block_(block),
        put_kind_(put_kind),
        control_(control) {}

  __device__ __forceinline__ void put() {
    if (threadIdx.x >= world_) return;
    if (control_.trace == nullptr) {
      put_found_ = ptx::cas_sys<kPut>(slots_.put, 0u, 1u);
      wait_found_ = ptx::cas_sys<kWait>(slots_.wait, 1u, 0u);
      return;
    }
    const uint64_t begin = ptx::globaltimer_ns();
    put_signal<kPut>(slots_.put, put_place(), control_);
    log(put_place(), begin, 0);
  }

  __device__ __forceinline__ void wait() {
    if (threadIdx.x >= world_) return;
    if (control_.trace == nullptr) {
      if (put_found_ != 0u) put_signal<kPut>(slots_.put, put_place(), control_);
      if (wait_found_ != 1u) wait_signal<kWait>(slots_.wait, wait_place(), control_);
      return;
    }
    const uint64_t begin = ptx::globaltimer_ns();
    wait_signal<kWait>(slots_.wait, wait_place(), control_);
    log(wait_place(), begin, 1);
  }

 private:
  __device__ __forceinline__ SpinPlace put_place() const {
    return {rank_, block_, threadIdx.x, block_ * world_ + rank_, put_kind_};
  }
  __device__ __forceinline__ SpinPlace wait_place() const {
    return {rank_, block_, threadIdx.x, block_ * world_ + threadIdx.x,
            static_cast<SignalKind>(static_cast<uint32_t>(put_kind_) + 1)};
  }
  /// Four events a thread and call, each with a place of its own.
  __device__ void log(const SpinPlace& place, uint64_t begin, uint32_t half) const {
    const uint32_t phase = (put_kind_ == SignalKind::start_put ? 0u : 2u) + half;
    const uint64_t index = static_cast<uint64_t>(control_.call) * control_.trace_stride +
                           ((rank_ * control_.blocks + block_) * world_ + threadIdx.x) * 4 + phase;
    if (index < control_.trace_capacity) {
      control_.trace[index] = {
          begin,      ptx::globaltimer_ns(), place.rank, place.block, place.peer, place.slot,
          place.kind, control_.call};
    }
  }

  const BarrierSlots slots_;
  const uint32_t rank_;
  const uint32_t world_;
  const uint32_t block_;
  const SignalKind put_kind_;
  const SpinControl& control_;
  uint32_t put_found_ = 0;
  uint32_t wait_found_ = 0;
};

}  // namespace ringfence::cuda

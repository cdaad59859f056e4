#include "emulator/ranks/free_gate.hpp"

#include <atomic>
#include <chrono>

namespace ringfence::ranks {
namespace {

constexpr std::uint32_t kBatch = 4096;                 // accesses a lease is good for
constexpr std::chrono::milliseconds kLeaseTimeout{1};  // of a leaseholder that makes none
constexpr std::chrono::microseconds kAfterYou{100};    // for others to take what one gave up

}  // namespace

void FreeGate::enter() {
  if (pool_.fault != nullptr && pool_.fault_rank == rank_ && ++accesses_ == pool_.fault_point) {
    pool_.fault();
  }
  RankSlot& slot = pool_.slots[rank_];
  if (state_.lease.load(std::memory_order_acquire) != rank_) {
    slot.at_gate.store(true, std::memory_order_relaxed);
    await_lease();
  }
  std::uint32_t open = 0;
  if (!state_.lock.compare_exchange_strong(open, 1, std::memory_order_acquire)) {
    slot.at_gate.store(true, std::memory_order_relaxed);
    while (state_.lock.exchange(2, std::memory_order_acquire) != 0) futex_wait(state_.lock, 2);
  }
  slot.at_gate.store(false, std::memory_order_relaxed);
  state_.holder.store(rank_, std::memory_order_relaxed);
}

void FreeGate::await_lease() {
  state_.waiting.fetch_add(1, std::memory_order_seq_cst);
  if (gave_up_) futex_wait(state_.lease, kNobody, kAfterYou);
  gave_up_ = false;
  for (;;) {
    std::uint32_t holder = state_.lease.load(std::memory_order_acquire);
    if (holder == rank_) break;
    if (holder != kNobody) {
      const std::atomic<std::uint32_t>& beat = pool_.slots[holder].progress.beat;
      const std::uint32_t before = beat.load(std::memory_order_relaxed);
      futex_wait(state_.lease, holder, kLeaseTimeout);
      // It moved: its batch will end. It did not: the lease is taken from it.
      if (state_.lease.load(std::memory_order_acquire) != holder ||
          beat.load(std::memory_order_relaxed) != before) {
        continue;
      }
    }
    if (state_.lease.compare_exchange_strong(holder, rank_, std::memory_order_acq_rel)) break;
  }
  state_.waiting.fetch_sub(1, std::memory_order_relaxed);
  batch_ = 0;
}

void FreeGate::leave() {
  schedule::Execution& execution = pool_.run->execution();
  for (const std::uint16_t r : execution.rung()) {
    if (r != rank_) pool_.ring(r);
  }
  execution.rung().clear();
  const bool over = !execution.running();
  state_.holder.store(kNobody, std::memory_order_relaxed);
  if (state_.lock.exchange(0, std::memory_order_release) == 2) futex_wake(state_.lock, 1);
  if (over) pool_.ring_all_but(rank_);  // some may be asleep
  if (++batch_ >= kBatch && state_.waiting.load(std::memory_order_relaxed) != 0) rest();
}

void FreeGate::rest() {
  std::uint32_t mine = rank_;
  if (state_.lease.compare_exchange_strong(mine, kNobody, std::memory_order_acq_rel) &&
      state_.waiting.load(std::memory_order_seq_cst) != 0) {
    futex_wake(state_.lease, 1);
    gave_up_ = true;
  }
}

}  // namespace ringfence::ranks

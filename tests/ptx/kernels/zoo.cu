// Faults that multi-GPU kernels have had, each beside its fixed twin: what tests/zoo launches.
// A kernel whose fault lies in its launch (streams, grids, sizes) has no twin here.
#include <cstdint>

namespace {

__device__ void st_release(uint32_t* p, uint32_t v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ void st_relaxed(uint32_t* p, uint32_t v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ uint32_t ld_acquire(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ uint32_t ld_relaxed(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ void add_release(uint32_t* p, uint32_t v) {
  asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

enum class Flavour { sys, relaxed, gpu };

// CAS 0 -> 1 at the peer, CAS 1 -> 0 at home; a slot is zero before and after.
template <Flavour kFlavour>
__device__ void put(uint32_t* slot) {
  uint32_t old;
  do {
    if (kFlavour == Flavour::sys) {
      asm volatile("atom.release.sys.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(slot) : "memory");
    } else if (kFlavour == Flavour::gpu) {
      asm volatile("atom.release.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(slot) : "memory");
    } else {
      asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(slot) : "memory");
    }
  } while (old != 0);
}
template <Flavour kFlavour>
__device__ void wait(uint32_t* slot) {
  uint32_t old;
  do {
    if (kFlavour == Flavour::sys) {
      asm volatile("atom.acquire.sys.global.cas.b32 %0, [%1], 1, 0;" : "=r"(old) : "l"(slot) : "memory");
    } else if (kFlavour == Flavour::gpu) {
      asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 1, 0;" : "=r"(old) : "l"(slot) : "memory");
    } else {
      asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], 1, 0;" : "=r"(old) : "l"(slot) : "memory");
    }
  } while (old != 1);
}

// The barrier of one block of every rank; `slots` is where its slots begin.
template <Flavour kFlavour>
__device__ void barrier(uint32_t* const* pads, int rank, int world, int slots) {
  __syncthreads();
  const int t = threadIdx.x;
  if (t < world) {
    put<kFlavour>(pads[t] + slots + rank);
    wait<kFlavour>(pads[rank] + slots + t);
  }
  __syncthreads();
}

// Every rank writes a row of its own, a barrier, and every rank adds up all rows; a barrier again
// so that the next call may write. Rows are plain accesses: the barriers have to order them.
template <Flavour kFlavour, bool kEnd>
__device__ void exchange(uint32_t* const* data, uint32_t* const* pads, uint32_t* out, int rank,
                         int world, int slots, uint32_t value) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  data[rank][at] = value + threadIdx.x;
  barrier<kFlavour>(pads, rank, world, slots);
  uint32_t sum = 0;
  for (int r = 0; r < world; ++r) sum += data[r][at];
  out[at] = sum;
  if (kEnd) barrier<kFlavour>(pads, rank, world, slots);
}

#define ROW_ARGS                                                                          \
  uint32_t *const *data, uint32_t *const *pads, uint32_t *out, int rank, int world

}  // namespace

// -- right: two streams on one pad, grids that differ by rank, a grid beyond the pad ---------------
extern "C" __global__ void exchange_rows(ROW_ARGS) {
  exchange<Flavour::sys, true>(data, pads, out, rank, world, blockIdx.x * world, rank * 100);
}

// -- the middle barrier of a two-shot is relaxed ---------------------------------------------------
extern "C" __global__ void middle_relaxed(ROW_ARGS) {
  exchange<Flavour::relaxed, true>(data, pads, out, rank, world, blockIdx.x * world, rank * 100);
}

// -- .gpu scope on a peer's flag -------------------------------------------------------------------
extern "C" __global__ void scope_gpu(ROW_ARGS) {
  exchange<Flavour::gpu, true>(data, pads, out, rank, world, blockIdx.x * world, rank * 100);
}

// -- one buffer for two stages, without a barrier at the end of the first --------------------------
extern "C" __global__ void reuse_without_end(ROW_ARGS) {
  exchange<Flavour::sys, false>(data, pads, out, rank, world, 0, rank * 100);
  exchange<Flavour::sys, true>(data, pads, out, rank, world, 0, rank * 100 + 50);
}
extern "C" __global__ void reuse_with_end(ROW_ARGS) {
  exchange<Flavour::sys, true>(data, pads, out, rank, world, 0, rank * 100);
  exchange<Flavour::sys, true>(data, pads, out, rank, world, 0, rank * 100 + 50);
}

// -- two groups (one block each) on the same slots -------------------------------------------------
extern "C" __global__ void groups_share_slots(ROW_ARGS) {
  exchange<Flavour::sys, true>(data, pads, out, rank, world, 0, rank * 100);
}
extern "C" __global__ void groups_own_slots(ROW_ARGS) {
  exchange<Flavour::sys, true>(data, pads, out, rank, world, blockIdx.x * world, rank * 100);
}

// -- a rank without work never arrives -------------------------------------------------------------
extern "C" __global__ void idle_rank_returns(ROW_ARGS, int rows) {
  if (rank >= rows) return;
  exchange<Flavour::sys, true>(data, pads, out, rank, world, 0, rank * 100);
}
extern "C" __global__ void idle_rank_arrives(ROW_ARGS, int rows) {
  const bool idle = rank >= rows;
  if (!idle) data[rank][threadIdx.x] = rank * 100 + threadIdx.x;
  barrier<Flavour::sys>(pads, rank, world, 0);
  uint32_t sum = 0;
  for (int r = 0; r < rows; ++r) sum += data[r][threadIdx.x];
  out[threadIdx.x] = sum;
  barrier<Flavour::sys>(pads, rank, world, 0);
}

// -- pads are zeroed after a peer has signalled ----------------------------------------------------
extern "C" __global__ void pad_zeroed_late(ROW_ARGS) {
  if (threadIdx.x < world) pads[rank][threadIdx.x] = 0;
  __syncthreads();
  exchange<Flavour::sys, true>(data, pads, out, rank, world, 0, rank * 100);
}
extern "C" __global__ void pad_left_zero(ROW_ARGS) {
  exchange<Flavour::sys, true>(data, pads, out, rank, world, 0, rank * 100);
}

// -- the signal comes before the block barrier -----------------------------------------------------
namespace {
template <bool kEarly>
__device__ void signal(uint32_t* const* data, uint32_t* const* pads, uint32_t* out, int rank) {
  const int t = threadIdx.x;
  const int peer = 1 - rank;
  data[rank][t] = rank * 100 + t;
  if (!kEarly) __syncthreads();
  if (t == 0) st_release(pads[peer], 1);
  if (kEarly) __syncthreads();
  if (t == 0) {
    while (ld_acquire(pads[rank]) != 1) {
    }
  }
  __syncthreads();
  out[t] = data[peer][t];
}
}  // namespace
extern "C" __global__ void signal_before_sync(ROW_ARGS) { signal<true>(data, pads, out, rank); }
extern "C" __global__ void signal_after_sync(ROW_ARGS) { signal<false>(data, pads, out, rank); }

// -- a 0/1 flag is set back before a slow peer saw it (ABA); two ranks, one thread ------------------
extern "C" __global__ void flag_toggled(uint32_t* const* pads, int rank) {
  for (int round = 0; round < 2; ++round) {
    st_release(pads[rank], 1);
    while (ld_acquire(pads[1 - rank]) != 1) {
    }
    st_relaxed(pads[rank], 0);
  }
}
extern "C" __global__ void flag_counts(uint32_t* const* pads, int rank) {
  for (uint32_t round = 1; round <= 2; ++round) {
    st_release(pads[rank], round);
    while (ld_acquire(pads[1 - rank]) < round) {
    }
  }
}

// -- a wait for EQ is overshot by the next arrival -------------------------------------------------
namespace {
template <bool kEqual>
__device__ void arrive_and_wait(uint32_t* const* pads, int rank, int world) {
  for (uint32_t round = 1; round <= 2; ++round) {
    for (int r = 0; r < world; ++r) add_release(pads[r], 1);
    const uint32_t due = round * world;
    for (;;) {
      const uint32_t now = ld_acquire(pads[rank]);
      if (kEqual ? now == due : now >= due) break;
    }
  }
}
}  // namespace
extern "C" __global__ void wait_equal(uint32_t* const* pads, int rank, int world) {
  arrive_and_wait<true>(pads, rank, world);
}
extern "C" __global__ void wait_at_least(uint32_t* const* pads, int rank, int world) {
  arrive_and_wait<false>(pads, rank, world);
}

// -- a counter is reset by a store that races with an add ------------------------------------------
extern "C" __global__ void counter_reset(uint32_t* const* pads, int rank, int world) {
  for (int round = 0; round < 2; ++round) {
    for (int r = 0; r < world; ++r) add_release(pads[r], 1);
    while (ld_acquire(pads[rank]) < world) {
    }
    st_relaxed(pads[rank], 0);
  }
}
extern "C" __global__ void counter_taken_back(uint32_t* const* pads, int rank, int world) {
  for (int round = 0; round < 2; ++round) {
    for (int r = 0; r < world; ++r) add_release(pads[r] + round, 1);
    while (ld_acquire(pads[rank] + round) < world) {
    }
    add_release(pads[rank] + round, -world);
  }
}

// -- the epoch is an argument of the host, which a replayed graph has frozen -------------------------
namespace {
__device__ void epoch_exchange(uint32_t* const* data, uint32_t* const* pads, uint32_t* out, int rank,
                               uint32_t epoch) {
  const int peer = 1 - rank;
  const int t = threadIdx.x;
  data[rank][t] = epoch * 1000 + rank * 100 + t;
  for (uint32_t step = 1; step <= 2; ++step) {
    __syncthreads();
    if (t == 0) {
      st_release(pads[peer], epoch + step);
      while (ld_acquire(pads[rank]) < epoch + step) {
      }
    }
    __syncthreads();
    if (step == 1) out[t] = data[peer][t];
  }
}
}  // namespace
extern "C" __global__ void epoch_from_host(ROW_ARGS, uint32_t epoch) {
  epoch_exchange(data, pads, out, rank, epoch);
}
extern "C" __global__ void epoch_on_device(ROW_ARGS, uint32_t* counter) {
  const uint32_t epoch = *counter;
  epoch_exchange(data, pads, out, rank, epoch);
  if (threadIdx.x == 0) *counter = epoch + 2;
}

// -- a flag is polled in one word of a 16-byte multicast store ---------------------------------------
// Each rank has 16 bytes of payload at 32 * rank, and a word for a flag of its own behind them.
extern "C" __global__ void flag_in_vector(uint32_t* multicast, uint32_t* own, uint32_t* out, int rank) {
  const uint32_t* from = own + 8 * (1 - rank);
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(multicast + 8 * rank),
               "r"(rank + 10), "r"(rank + 20), "r"(rank + 30), "r"(1)
               : "memory");
  while (ld_acquire(from + 3) != 1) {
  }
  for (int i = 0; i < 3; ++i) out[i] = from[i];
}
extern "C" __global__ void flag_by_itself(uint32_t* multicast, uint32_t* own, uint32_t* out, int rank) {
  const uint32_t* from = own + 8 * (1 - rank);
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(multicast + 8 * rank),
               "r"(rank + 10), "r"(rank + 20), "r"(rank + 30), "r"(0)
               : "memory");
  asm volatile("multimem.st.release.sys.global.u32 [%0], %1;" ::"l"(multicast + 8 * rank + 4), "r"(1)
               : "memory");
  while (ld_acquire(from + 4) != 1) {
  }
  for (int i = 0; i < 3; ++i) out[i] = from[i];
}

// -- byte flags are read as one word -----------------------------------------------------------------
namespace {
__device__ void st_byte(uint8_t* p) {
  asm volatile("st.release.sys.global.u8 [%0], %1;" ::"l"(p), "h"((uint16_t)1) : "memory");
}
}  // namespace
extern "C" __global__ void bytes_as_word(uint32_t* const* data, uint8_t* const* pads, uint32_t* out,
                                         int rank, int world) {
  data[rank][0] = rank + 1;
  for (int r = 0; r < world; ++r) {
    for (int i = 0; i < 4; ++i) st_byte(pads[r] + 4 * rank + i);
  }
  uint64_t all;
  do {
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(all) : "l"(pads[rank]) : "memory");
  } while (all != 0x0101010101010101ULL);
  out[0] = data[1 - rank][0];
}
extern "C" __global__ void bytes_as_bytes(uint32_t* const* data, uint8_t* const* pads, uint32_t* out,
                                          int rank, int world) {
  data[rank][0] = rank + 1;
  for (int r = 0; r < world; ++r) {
    for (int i = 0; i < 4; ++i) st_byte(pads[r] + 4 * rank + i);
  }
  for (int i = 0; i < 8; ++i) {
    uint16_t one;
    do {
      asm volatile("ld.acquire.sys.global.u8 %0, [%1];" : "=h"(one) : "l"(pads[rank] + i) : "memory");
    } while (one != 1);
  }
  out[0] = data[1 - rank][0];
}

// -- Lamport: data are their own flags; +0.0 stands for "not there yet" --------------------------------
namespace {
__device__ uint32_t poll(const uint32_t* p) {
  uint32_t v;
  while ((v = ld_relaxed(p)) == 0) {
  }
  return v;
}
}  // namespace
extern "C" __global__ void sentinel_in_payload(uint32_t* const* data, uint32_t* out, int rank) {
  const int t = threadIdx.x;
  const float value = (float)(t - 3);  // thread 3 sends what says that nothing is there
  st_relaxed(data[1 - rank] + t, __float_as_uint(value));
  out[t] = poll(data[rank] + t);
}
extern "C" __global__ void sentinel_replaced(uint32_t* const* data, uint32_t* out, int rank) {
  const int t = threadIdx.x;
  uint32_t value = __float_as_uint((float)(t - 3));
  if (value == 0) value = 0x80000000u;  // -0.0
  st_relaxed(data[1 - rank] + t, value);
  out[t] = poll(data[rank] + t);
}

// One call of an all-reduce over three buffers in turn: `n` elements go to buffer `call` % 3, and the
// buffer of the call before is cleared for the one after next. `clear` is how many that call had; the
// fault passes its own `n`.
extern "C" __global__ void lamport(uint32_t* const* data, uint32_t* out, int rank, int world, int call,
                                   int n, int clear) {
  constexpr int kMost = 8;
  const int t = threadIdx.x;
  const int buffer = call % 3 * world * kMost;
  const int cleared = (call + 2) % 3 * world * kMost;
  if (t < n) {
    for (int r = 0; r < world; ++r) st_relaxed(data[r] + buffer + rank * kMost + t, call * 100 + rank * 10 + t + 1);
    uint32_t sum = 0;
    for (int r = 0; r < world; ++r) sum += poll(data[rank] + buffer + r * kMost + t);
    out[call * kMost + t] = sum;
  }
  if (t < clear) {
    for (int r = 0; r < world; ++r) st_relaxed(data[rank] + cleared + r * kMost + t, 0);
  }
}

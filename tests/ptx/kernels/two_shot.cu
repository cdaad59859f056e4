// A two-shot all-reduce in place, by the protocol of PyTorch's symmetric memory: blocks of one index
// meet on all ranks by compare-and-swaps of slots in signal pads; a rank reduces its own chunk by
// reading its peers' buffers, and gathers the others' chunks; three barriers. With what breaks it.
#include <cstdint>

namespace {

enum class Order { relaxed, acq_rel };

template <Order kOrder>
__device__ uint32_t cas_put(uint32_t* slot) {
  uint32_t old;
  if constexpr (kOrder == Order::relaxed) {
    asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], 0, 1;"
                 : "=r"(old) : "l"(slot) : "memory");
  } else {
    asm volatile("atom.release.sys.global.cas.b32 %0, [%1], 0, 1;"
                 : "=r"(old) : "l"(slot) : "memory");
  }
  return old;
}

template <Order kOrder>
__device__ uint32_t cas_take(uint32_t* slot) {
  uint32_t old;
  if constexpr (kOrder == Order::relaxed) {
    asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], 1, 0;"
                 : "=r"(old) : "l"(slot) : "memory");
  } else {
    asm volatile("atom.acquire.sys.global.cas.b32 %0, [%1], 1, 0;"
                 : "=r"(old) : "l"(slot) : "memory");
  }
  return old;
}

// Thread t signals this block of rank t, and takes the signal of that one.
template <Order kOrder>
__device__ void meet(uint32_t* const* pads, int rank, int world) {
  __syncthreads();
  if (threadIdx.x < world) {
    uint32_t* theirs = pads[threadIdx.x] + blockIdx.x * world + rank;
    uint32_t* ours = pads[rank] + blockIdx.x * world + threadIdx.x;
    while (cas_put<kOrder>(theirs) != 0) {
    }
    while (cas_take<kOrder>(ours) != 1) {
    }
  }
  __syncthreads();
}

enum class Middle { there, relaxed, none };

// What a block reduces, the same block of each peer gathers.
template <Middle kMiddle, bool kLast>
__device__ void all_reduce(float4* const* buffers, uint32_t* const* pads, int rank, int world,
                           int vectors) {
  const int chunk = vectors / world;
  const int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  meet<Order::acq_rel>(pads, rank, world);
  for (int i = first; i < chunk; i += stride) {
    const int at = rank * chunk + i;
    float4 sum = buffers[0][at];
    for (int r = 1; r < world; ++r) {
      const float4 part = buffers[r][at];
      sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
    }
    buffers[rank][at] = sum;
  }
  if constexpr (kMiddle == Middle::there) meet<Order::acq_rel>(pads, rank, world);
  if constexpr (kMiddle == Middle::relaxed) meet<Order::relaxed>(pads, rank, world);
  for (int step = 1; step < world; ++step) {
    const int peer = (rank + step) % world;
    for (int i = first; i < chunk; i += stride) {
      buffers[rank][peer * chunk + i] = buffers[peer][peer * chunk + i];
    }
  }
  if constexpr (kLast) meet<Order::acq_rel>(pads, rank, world);
}

}  // namespace

#define ARGS float4 *const *buffers, uint32_t *const *pads, int rank, int world, int vectors

extern "C" __global__ void two_shot(ARGS) {
  all_reduce<Middle::there, true>(buffers, pads, rank, world, vectors);
}
extern "C" __global__ void two_shot_middle_relaxed(ARGS) {
  all_reduce<Middle::relaxed, true>(buffers, pads, rank, world, vectors);
}
extern "C" __global__ void two_shot_no_middle(ARGS) {
  all_reduce<Middle::none, true>(buffers, pads, rank, world, vectors);
}
extern "C" __global__ void two_shot_no_last(ARGS) {
  all_reduce<Middle::there, false>(buffers, pads, rank, world, vectors);
}

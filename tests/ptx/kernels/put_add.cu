// pypto's protocol (emulator/programs/protocols/pypto.hpp) as a kernel of one tile a block, with
// what breaks it: compiled rows of docs/barriers.md. The partial sums are data at hand; ringfence's
// own kernel makes them by wgmma (cuda/kernels/pypto.cu).
#include <cstdint>

namespace {

enum class Signal { release, relaxed };
enum class Meet { all, none };

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
__device__ void add(float* p, float v) {
  asm volatile("red.relaxed.sys.global.add.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory");
}
template <Signal kSignal>
__device__ void signal(uint32_t* p) {
  if constexpr (kSignal == Signal::release) {
    asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(p) : "memory");
  } else {
    asm volatile("red.relaxed.sys.global.add.u32 [%0], 1;" ::"l"(p) : "memory");
  }
}

// pad: of each block a slot for the arrivals of the puts, and one for each rank at the barrier.
// `call` counts from 0.
template <Signal kSignal, Meet kMeet>
__device__ void put_add(const float* partial, float* const* tile, uint32_t* const* pad, float* out,
                        int rank, int world, int elements, uint32_t call) {
  const int first = blockIdx.x * elements, slots = blockIdx.x * (world + 1);
  float* own = tile[rank] + first;
  for (int i = threadIdx.x; i < elements; i += blockDim.x) own[i] = 0;
  __syncthreads();
  if (kMeet == Meet::all && threadIdx.x < world) {
    st_release(pad[threadIdx.x] + slots + 1 + rank, call + 1);
    const uint32_t* theirs = pad[rank] + slots + 1 + threadIdx.x;
    while (ld_acquire(theirs) < call + 1) {
    }
  }
  __syncthreads();
  for (int peer = 0; peer < world; ++peer) {
    for (int i = threadIdx.x; i < elements; i += blockDim.x) {
      add(tile[peer] + first + i, partial[first + i]);
    }
  }
  __syncthreads();
  if (threadIdx.x < world) signal<kSignal>(pad[threadIdx.x] + slots);
  if (threadIdx.x == 0) {
    uint32_t* arrived = pad[rank] + slots;
    while (ld_acquire(arrived) != world) {
    }
    st_relaxed(arrived, 0);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < elements; i += blockDim.x) out[first + i] = own[i];
}

}  // namespace

#define ARGS                                                                                       \
  const float *partial, float *const *tile, uint32_t *const *pad, float *out, int rank, int world, \
      int elements, uint32_t call
#define PASS partial, tile, pad, out, rank, world, elements, call

extern "C" __global__ void pypto_put_add(ARGS) { put_add<Signal::release, Meet::all>(PASS); }
extern "C" __global__ void pypto_signal_relaxed(ARGS) { put_add<Signal::relaxed, Meet::all>(PASS); }
extern "C" __global__ void pypto_no_barrier_all(ARGS) {
  put_add<Signal::release, Meet::none>(PASS);
}

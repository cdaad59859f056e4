// The costs of single operations that a machine profile of `ringfence simulate` holds: latencies of
// loads, compare-and-swaps, fences and signals, in one GPU's memory and in a peer's; the reduction
// over a block; what few blocks move. No kernel of cuda/kernels runs here, so that the profile
// knows nothing of the times that it is compared with.
//
//   nvcc -O3 -arch=sm_90 -o costs cuda/bench/costs.cu && ./costs    (one GPU, or two with peer access)
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void check(cudaError_t e, const char* what) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "costs: %s: %s\n", what, cudaGetErrorString(e));
  std::exit(1);
}

__device__ uint64_t ld_sys(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ uint4 ld_sys_16(const uint4* p) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
__device__ void st_sys_16(uint4* p, uint4 v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ uint32_t cas_sys(uint32_t* p, uint32_t from, uint32_t to) {
  uint32_t old;
  asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old)
               : "l"(p), "r"(from), "r"(to)
               : "memory");
  return old;
}

// One thread follows a chain of pointers.
__global__ void chase(const uint64_t* at, int steps, uint64_t* out) {
  for (int i = 0; i < steps; ++i) at = reinterpret_cast<const uint64_t*>(ld_sys(at));
  *out = reinterpret_cast<uint64_t>(at);
}
// One thread, each compare-and-swap after the answer to the one before.
__global__ void swap(uint32_t* at, int steps) {
  uint32_t v = *at;
  for (int i = 0; i < steps; ++i) v = cas_sys(at, v, v + 1) + 1;
}
// `lanes` compare-and-swaps of one warp at once, to as many words.
__global__ void swap_lanes(uint32_t* at, int steps, int lanes) {
  if (static_cast<int>(threadIdx.x) >= lanes) return;
  at += threadIdx.x;
  uint32_t v = *at;
  for (int i = 0; i < steps; ++i) v = cas_sys(at, v, v + 1) + 1;
}
// A block stores a row, meets, and one thread fences: what a release waits for.
template <bool kStore, bool kFence>
__global__ void store_fence(uint4* at, int steps) {
  for (int i = 0; i < steps; ++i) {
    if (kStore) st_sys_16(at + (i % 64) * blockDim.x + threadIdx.x, uint4{1, 2, 3, 4});
    __syncthreads();
    if (kFence && threadIdx.x == 0) asm volatile("fence.acq_rel.sys;" ::: "memory");
    __syncthreads();
  }
}
__global__ void syncs(int steps) {
  for (int i = 0; i < steps; ++i) __syncthreads();
}
// The sum over a block, as a row's squares are added: shuffles, shared memory, shuffles.
__global__ void reduces(int steps, float* out) {
  __shared__ float warps[2][32];
  float v = threadIdx.x;
  for (int i = 0; i < steps; ++i) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    if (threadIdx.x % 32 == 0) warps[i % 2][threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? warps[i % 2][threadIdx.x % 32] : 0.0f;
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    v = rsqrtf(v + 1.0f);
  }
  out[threadIdx.x] = v;
}
// Row after row of blockDim.x vectors, the next one asked for when the last has come.
__global__ void rows_one_by_one(const uint4* at, int rows, uint32_t* out) {
  uint32_t x = 0;
  for (int i = 0; i < rows; ++i) {
    const size_t row = (static_cast<size_t>(i) * gridDim.x + blockIdx.x) & 1023;
    x ^= ld_sys_16(at + row * blockDim.x + threadIdx.x + (x == 12345)).x;
  }
  out[threadIdx.x] = x;
}
// As many loads, or stores, in flight as fit.
__global__ void stream_in(const uint4* at, int rows, uint32_t* out) {
  uint32_t x = 0;
  for (int i = 0; i < rows; i += 8) {
    uint4 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const size_t row = (static_cast<size_t>(i + k) * gridDim.x + blockIdx.x) & 1023;
      v[k] = ld_sys_16(at + row * blockDim.x + threadIdx.x);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) x ^= v[k].x;
  }
  out[threadIdx.x] = x;
}
__global__ void stream_out(uint4* at, int rows) {
  for (int i = 0; i < rows; ++i) {
    const size_t row = (static_cast<size_t>(i) * gridDim.x + blockIdx.x) & 1023;
    st_sys_16(at + row * blockDim.x + threadIdx.x, uint4{1, 2, 3, 4});
  }
}
// A word goes to and fro between two blocks, each polling its own memory.
__global__ void ping(uint32_t* own, uint32_t* peer, int steps, int first) {
  for (int i = 1; i <= steps; ++i) {
    if (first) asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(peer), "r"(i) : "memory");
    uint32_t v;
    do {
      asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(own) : "memory");
    } while (v < static_cast<uint32_t>(i));
    if (!first) asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(peer), "r"(i) : "memory");
  }
}

// Median of 7, in nanoseconds; on the current device.
template <class F>
double timed(F&& launch) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> ms;
  for (int i = 0; i < 8; ++i) {
    check(cudaEventRecord(begin), "record");
    launch();
    check(cudaEventRecord(end), "record");
    check(cudaEventSynchronize(end), "run");
    float t = 0;
    check(cudaEventElapsedTime(&t, begin, end), "time");
    if (i > 0) ms.push_back(t);
  }
  std::sort(ms.begin(), ms.end());
  return ms[3] * 1e6;
}

constexpr size_t kBytes = size_t{256} << 20;

// A chain of 8-byte pointers, `stride` apart, over the first `bytes`, in the device's addresses.
void link_chain(char* base, size_t bytes, size_t stride) {
  std::vector<uint64_t> host(bytes / 8);
  const size_t n = bytes / stride;
  // n is a power of two: steps of an odd number visit all.
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t to = (at + 7919) % n;
    host[at * stride / 8] = reinterpret_cast<uint64_t>(base + to * stride);
    at = to;
  }
  check(cudaMemcpy(base, host.data(), bytes, cudaMemcpyHostToDevice), "copy");
}

void measure(const char* where, char* memory, char* scratch) {
  auto* out = reinterpret_cast<uint64_t*>(scratch);
  auto* out32 = reinterpret_cast<uint32_t*>(scratch);
  auto* chain = reinterpret_cast<uint64_t*>(memory);
  auto* word = reinterpret_cast<uint32_t*>(memory);
  auto* vectors = reinterpret_cast<uint4*>(memory);
  constexpr int kSteps = 4096;
  // What a step touches is in L2 from the launch before.
  link_chain(memory, size_t{4} << 20, 256);
  std::printf("%s load, 4 MiB: %.0f ns\n", where,
              timed([&] { chase<<<1, 1>>>(chain, kSteps, out); }) / kSteps);
  check(cudaMemset(memory, 0, kBytes), "set");
  std::printf("%s compare-and-swap: %.0f ns\n", where,
              timed([&] { swap<<<1, 1>>>(word, kSteps); }) / kSteps);
  for (const int lanes : {2, 4, 8, 16, 32}) {
    check(cudaMemset(memory, 0, 256), "set");
    std::printf("%s compare-and-swap, %d lanes: %.0f ns\n", where, lanes,
                timed([&] { swap_lanes<<<1, 32>>>(word, kSteps, lanes); }) / kSteps);
  }
  std::printf("%s row stored, 2 block syncs: %.0f ns\n", where,
              timed([&] { store_fence<true, false><<<1, 1024>>>(vectors, kSteps); }) / kSteps);
  std::printf("%s row stored, 2 block syncs, fence.acq_rel.sys: %.0f ns\n", where,
              timed([&] { store_fence<true, true><<<1, 1024>>>(vectors, kSteps); }) / kSteps);
  for (const int blocks : {1, 2, 4, 8, 16, 32, 64, 128}) {
    const int rows = 4096;
    const double one = timed([&] { rows_one_by_one<<<blocks, 1024>>>(vectors, rows, out32); });
    const double in = timed([&] { stream_in<<<blocks, 1024>>>(vectors, rows, out32); });
    const double to = timed([&] { stream_out<<<blocks, 1024>>>(vectors, rows); });
    std::printf(
        "%s %3d blocks: a 16 KiB row loaded, one by one, %.0f ns; load %.1f GB/s, store %.1f GB/s "
        "a block\n",
        where, blocks, one / rows, 16384.0 * rows / in, 16384.0 * rows / to);
  }
}

}  // namespace

int main() {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "devices");
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, 0), "properties");
  int clock = 0;
  check(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0), "clock");
  std::printf("# %d x %s, %d multiprocessors, up to %d MHz\n", devices, p.name,
              p.multiProcessorCount, clock / 1000);
  check(cudaSetDevice(0), "device");
  char *memory = nullptr, *scratch = nullptr;
  check(cudaMalloc(&memory, kBytes), "memory");
  check(cudaMalloc(&scratch, 1 << 20), "memory");
  constexpr int kSteps = 16384;
  std::printf("empty launch, one after the other: %.0f ns\n", timed([&] {
                                                                for (int i = 0; i < 1000; ++i)
                                                                  syncs<<<16, 1024>>>(0);
                                                              }) / 1000);
  std::printf("block sync, 1024 threads: %.1f ns\n",
              timed([&] { syncs<<<1, 1024>>>(kSteps); }) / kSteps);
  std::printf(
      "sum over a block of 1024 threads: %.1f ns\n",
      timed([&] { reduces<<<1, 1024>>>(kSteps, reinterpret_cast<float*>(scratch)); }) / kSteps);
  std::printf("2 block syncs, fence.acq_rel.sys, nothing stored: %.0f ns\n",
              timed([&] {
                store_fence<false, true><<<1, 1024>>>(reinterpret_cast<uint4*>(memory), 4096);
              }) / 4096);
  measure("own", memory, scratch);
  if (devices < 2) return 0;
  check(cudaDeviceEnablePeerAccess(1, 0), "peer access");
  check(cudaSetDevice(1), "device");
  check(cudaDeviceEnablePeerAccess(0, 0), "peer access");
  char* far = nullptr;
  check(cudaMalloc(&far, kBytes), "memory");
  check(cudaMemset(far, 0, kBytes), "set");
  check(cudaDeviceSynchronize(), "set");
  check(cudaSetDevice(0), "device");
  measure("peer", far, scratch);
  check(cudaMemset(memory, 0, 256), "set");
  check(cudaMemset(far, 0, 256), "set");
  check(cudaDeviceSynchronize(), "set");
  cudaStream_t other;
  check(cudaSetDevice(1), "device");
  check(cudaStreamCreate(&other), "stream");
  for (int i = 0; i < 3; ++i) {
    check(cudaSetDevice(1), "device");
    check(cudaMemsetAsync(far, 0, 256, other), "set");
    check(cudaStreamSynchronize(other), "set");
    ping<<<1, 1, 0, other>>>(reinterpret_cast<uint32_t*>(far), reinterpret_cast<uint32_t*>(memory),
                             20000, 0);
    check(cudaSetDevice(0), "device");
    check(cudaMemset(memory, 0, 256), "set");
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    check(cudaEventRecord(begin), "record");
    ping<<<1, 1>>>(reinterpret_cast<uint32_t*>(memory), reinterpret_cast<uint32_t*>(far), 20000, 1);
    check(cudaEventRecord(end), "record");
    check(cudaEventSynchronize(end), "run");
    check(cudaStreamSynchronize(other), "run");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "time");
    std::printf("peer a word there and back, polled: %.0f ns\n", ms * 1e6 / 20000);
  }
  return 0;
}

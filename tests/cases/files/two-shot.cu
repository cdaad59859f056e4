// Two-shot all-reduce: two launches per call. two-shot.ptx: nvcc -arch=sm_90 -ptx two-shot.cu
//   rs: barrier, each rank sums its own slice of all peers' inputs into its scratch, barrier
//   ag: each rank gathers all slices into out
#include <cuda_bf16.h>
#include <cstdint>

constexpr int kMaxRanks = 8;

struct Comm {
  void* data[kMaxRanks];       // symmetric input
  void* scratch[kMaxRanks];    // symmetric slices
  uint32_t* flags[kMaxRanks];  // [block][rank], epochs
  uint32_t* epoch;             // local: [block]
  int rank;
  int world;
};

__device__ __forceinline__ void st_release(uint32_t* p, uint32_t v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ uint32_t ld_acquire(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

__device__ void barrier(const Comm& c, uint32_t e) {
  __syncthreads();
  if (threadIdx.x < c.world) {
    st_release(c.flags[threadIdx.x] + blockIdx.x * kMaxRanks + c.rank, e);
    while (ld_acquire(c.flags[c.rank] + blockIdx.x * kMaxRanks + threadIdx.x) < e) {
    }
  }
  __syncthreads();
}

template <typename T>
struct Pack {
  T v[16 / sizeof(T)];
};

template <typename T>
__device__ float to_f(T x) {
  return static_cast<float>(x);
}
template <>
__device__ float to_f(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
template <typename T>
__device__ T from_f(float x) {
  return static_cast<T>(x);
}
template <>
__device__ __nv_bfloat16 from_f(float x) {
  return __float2bfloat16(x);
}

template <typename T>
__global__ void reduce_scatter(const Comm c, int n) {
  using P = Pack<T>;
  constexpr int W = 16 / sizeof(T);
  extern __shared__ __align__(16) unsigned char raw[];
  P* tile = reinterpret_cast<P*>(raw);
  const uint32_t e = c.epoch[blockIdx.x] + 1;
  barrier(c, e);
  const int slice = n / W / c.world;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < slice; i += gridDim.x * blockDim.x) {
    float acc[W] = {};
    for (int r = 0; r < c.world; ++r) {
      tile[threadIdx.x] = static_cast<const P*>(c.data[r])[c.rank * slice + i];
      for (int k = 0; k < W; ++k) acc[k] += to_f(tile[threadIdx.x].v[k]);
    }
    P o;
    for (int k = 0; k < W; ++k) o.v[k] = from_f<T>(acc[k]);
    static_cast<P*>(c.scratch[c.rank])[i] = o;
  }
  barrier(c, e + 1);
  if (threadIdx.x == 0) c.epoch[blockIdx.x] = e + 1;
}

template <typename T>
__global__ void all_gather(const Comm c, T* out, int n) {
  using P = Pack<T>;
  constexpr int W = 16 / sizeof(T);
  const int slice = n / W / c.world;
  for (int r = 0; r < c.world; ++r)
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < slice; i += gridDim.x * blockDim.x)
      reinterpret_cast<P*>(out)[r * slice + i] = static_cast<const P*>(c.scratch[r])[i];
}

template __global__ void reduce_scatter<__nv_bfloat16>(const Comm, int);
template __global__ void all_gather<__nv_bfloat16>(const Comm, __nv_bfloat16*, int);
template __global__ void reduce_scatter<float>(const Comm, int);
template __global__ void all_gather<float>(const Comm, float*, int);

#include "cuda/bench/bandwidth.hpp"
#include "cuda/kernels/element.cuh"
#include "cuda/kernels/ptx/memory.cuh"

namespace ringfence::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kUnroll = 4;

template <bool kStore>
__global__ void __launch_bounds__(kThreads) stream_through(const uint4* from, uint4* to,
                                                           size_t vectors) {
  const size_t step = static_cast<size_t>(gridDim.x) * kThreads;
  uint4 kept{0, 0, 0, 0};
  for (size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x; i < vectors;
       i += step * kUnroll) {
    uint4 v[kUnroll];
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) {
      v[j] = i + j * step < vectors ? ptx::ld_weak_16(from + i + j * step) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int j = 0; j < kUnroll; ++j) {
      if constexpr (kStore) {
        if (i + j * step < vectors) ptx::st_weak_16(to + i + j * step, v[j]);
      } else {
        kept.x ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
      }
    }
  }
  // Never true of the data that is read, so the loads stay and nothing is written.
  if (!kStore && kept.x == 0x9e3779b9u && to != nullptr) *to = kept;
}

template <class T>
__global__ void fill(uint32_t* to, size_t pairs, unsigned seed) {
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < pairs;
       i += static_cast<size_t>(gridDim.x) * blockDim.x) {
    uint32_t h = static_cast<uint32_t>(i) * 0x9e3779b9u + seed * 0x85ebca6bu;
    h ^= h >> 16;
    h *= 0x7feb352du;
    h ^= h >> 15;
    h *= 0x846ca68bu;
    h ^= h >> 16;
    to[i] = pack<T>(static_cast<float>(static_cast<int>(h & 0xffffu) - 32768) / 16384.0f,
                    static_cast<float>(static_cast<int>(h >> 16) - 32768) / 16384.0f);
  }
}

constexpr int kGrid = 132 * 4;

}  // namespace

cudaError_t launch_copy(const void* from, void* to, size_t bytes, cudaStream_t stream) {
  stream_through<true><<<kGrid, kThreads, 0, stream>>>(static_cast<const uint4*>(from),
                                                       static_cast<uint4*>(to), bytes / 16);
  return cudaGetLastError();
}

cudaError_t launch_read(const void* from, size_t bytes, cudaStream_t stream) {
  stream_through<false>
      <<<kGrid, kThreads, 0, stream>>>(static_cast<const uint4*>(from), nullptr, bytes / 16);
  return cudaGetLastError();
}

cudaError_t launch_fill(void* to, size_t elements, bool bf16, unsigned seed, cudaStream_t stream) {
  if (bf16) {
    fill<__nv_bfloat16><<<1024, 256, 0, stream>>>(static_cast<uint32_t*>(to), elements / 2, seed);
  } else {
    fill<__half><<<1024, 256, 0, stream>>>(static_cast<uint32_t*>(to), elements / 2, seed);
  }
  return cudaGetLastError();
}

}  // namespace ringfence::cuda

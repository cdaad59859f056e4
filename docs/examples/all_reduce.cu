// A one-shot all-reduce over peer memory: barrier, sum, barrier.
//   nvcc -ptx -lineinfo -arch=sm_90 all_reduce.cu
//   nvcc -ptx -lineinfo -arch=sm_90 -DNO_LAST_BARRIER all_reduce.cu -o all_reduce_broken.ptx
#include <cstdint>

// A slot goes from 0 to 1 when its rank arrives, and back when that was seen.
__device__ void put(uint32_t* slot) {
  uint32_t old;
  do {
    asm volatile("atom.global.release.sys.cas.b32 %0, [%1], 0, 1;"
                 : "=r"(old)
                 : "l"(slot)
                 : "memory");
  } while (old != 0);
}

__device__ void wait(uint32_t* slot) {
  uint32_t old;
  do {
    asm volatile("atom.global.acquire.sys.cas.b32 %0, [%1], 1, 0;"
                 : "=r"(old)
                 : "l"(slot)
                 : "memory");
  } while (old != 1);
}

__device__ void barrier(uint32_t* const* pads, int rank, int world) {
  __syncthreads();
  if (threadIdx.x < world) {
    put(pads[threadIdx.x] + rank);
    wait(pads[rank] + threadIdx.x);
  }
  __syncthreads();
}

extern "C" __global__ void all_reduce(float* const* data, uint32_t* const* pads, float* out,
                                      int rank, int world) {
  barrier(pads, rank, world);
  float sum = 0;
  for (int r = 0; r < world; ++r) sum += data[r][threadIdx.x];
  out[threadIdx.x] = sum;
#ifndef NO_LAST_BARRIER  // without it the next call overwrites what a slow rank still reads
  barrier(pads, rank, world);
#endif
}

// Forms of launches, what is known of kernels and devices, printf, and what is not there.
#include <cuda_runtime.h>

#include "check.hpp"

__global__ void __cluster_dims__(2, 1, 1) clustered(int* out) {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  out[blockIdx.x] = static_cast<int>(rank);
}
__global__ void __launch_bounds__(128) plain(int* out, char small, double wide, int3 three) {
  extern __shared__ int scratch[];
  scratch[threadIdx.x] = three.z;
  __syncthreads();
  out[threadIdx.x] = small + static_cast<int>(wide) + scratch[blockDim.x - 1 - threadIdx.x];
  if (threadIdx.x == 0) printf("said %d by a kernel\n", three.y);
}
struct Pair {
  int a, b;
};
template <class T>
__global__ void templated(T* out, T value) {
  out[threadIdx.x] = value;
}

int main() {
  cudaDeviceProp p{};
  CHECK_CUDA(cudaGetDeviceProperties(&p, 1));
  EXPECT(p.major == 9 && p.minor == 0 && p.warpSize == 32 && p.multiProcessorCount == 132);
  EXPECT(p.cooperativeLaunch == 1 && p.clusterLaunch == 1 && p.sharedMemPerBlockOptin == 227 << 10);
  EXPECT(p.maxThreadsPerBlock == 1024 && p.unifiedAddressing == 1 &&
         p.regsPerMultiprocessor == 65536);
  EXPECT(p.maxBlocksPerMultiProcessor == 32 && p.pciBusID == 2 && p.managedMemory == 1);
  EXPECT(cudaSetDevice(64) == cudaErrorInvalidDevice &&
         cudaGetLastError() == cudaErrorInvalidDevice);
  EXPECT(cudaGetLastError() == cudaSuccess);
  char bus[16];
  int device = -1, pools = 0;
  CHECK_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, 2));
  CHECK_CUDA(cudaDeviceGetByPCIBusId(&device, bus));
  CHECK_CUDA(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, 0));
  EXPECT(device == 2 && pools == 1 && p.memoryPoolsSupported == 1);
  EXPECT(cudaDeviceGetByPCIBusId(&device, "0000:09:00.0") == cudaErrorInvalidDevice);
  EXPECT(cudaGetLastError() == cudaErrorInvalidDevice);
  size_t stack = 0;
  CHECK_CUDA(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
  EXPECT(stack == 1024);
  int* out = nullptr;
  CHECK_CUDA(cudaMalloc(&out, 128 * sizeof(int)));
  int got[128];

  clustered<<<4, 1>>>(out);
  CHECK_CUDA(cudaMemcpy(got, out, 4 * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 4; ++i) EXPECT(got[i] == i % 2);

  plain<<<1, 128, 128 * sizeof(int)>>>(out, 1, 2.0, make_int3(1, 42, 3));
  CHECK_CUDA(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 128; ++i) EXPECT(got[i] == 6);

  Pair* pairs = reinterpret_cast<Pair*>(out);
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 16;
  CHECK_CUDA(cudaLaunchKernelEx(&config, templated<Pair>, pairs, Pair{8, 9}));
  CHECK_CUDA(cudaMemcpy(got, out, 32 * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; ++i) EXPECT(got[i] == 8 + i % 2);

  cudaFuncAttributes a{};
  CHECK_CUDA(cudaFuncGetAttributes(&a, plain));
  EXPECT(a.maxThreadsPerBlock == 128 && a.sharedSizeBytes == 0);
  // More shared memory than a block has without asking; more threads than the kernel takes.
  plain<<<1, 1, 64 << 10>>>(out, 0, 0, make_int3(0, 0, 0));
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK_CUDA(cudaFuncSetAttribute(plain, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
  plain<<<1, 1, 64 << 10>>>(out, 0, 0, make_int3(0, 43, 0));
  CHECK_CUDA(cudaGetLastError());
  plain<<<1, 256, 1024>>>(out, 0, 0, make_int3(0, 0, 0));
  EXPECT(cudaGetLastError() != cudaSuccess);
  CHECK_CUDA(cudaDeviceSynchronize());

  cudaGraph_t graph;
  EXPECT(cudaGraphCreate(&graph, 0) == cudaErrorNotSupported);
  EXPECT(cudaGraphCreate(&graph, 0) == cudaErrorNotSupported);
  EXPECT(cudaMallocArray(nullptr, nullptr, 1, 1) == cudaErrorNotSupported);
  EXPECT(std::strcmp(cudaGetErrorName(cudaGetLastError()), "cudaErrorNotSupported") == 0);
  EXPECT(cudaMemcpy(out, got, 1 << 20, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  std::puts("forms: right");
  return 0;
}

// A barrier of all blocks of a cooperative launch, hand-made. `relaxed`: it orders nothing.
#include <vector>

#include "check.hpp"

__global__ void turns(int* data, unsigned* count, int blocks, int rounds, bool relaxed) {
  for (int round = 1; round <= rounds; ++round) {
    // Each block reads what the next one wrote in the round before.
    const int next = (blockIdx.x + 1) % blocks;
    const int seen = data[((round - 1) % 2) * blocks * 32 + next * 32 + threadIdx.x];
    data[(round % 2) * blocks * 32 + blockIdx.x * 32 + threadIdx.x] = seen + 1;
    __syncthreads();
    if (threadIdx.x == 0) {
      if (!relaxed) __threadfence();
      atomicAdd(count, 1u);
      while (*static_cast<volatile unsigned*>(count) < round * blocks) {
      }
      if (!relaxed) __threadfence();
    }
    __syncthreads();
  }
}

int main(int argc, char** argv) {
  bool relaxed = asked(argc, argv, "relaxed");
  int blocks = 4, rounds = 3;
  int per_sm = 0, sms = 0, cooperative = 0;
  CHECK_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  CHECK_CUDA(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0));
  CHECK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, turns, 32, 0));
  EXPECT(cooperative == 1 && per_sm >= 1 && sms * per_sm >= blocks);
  int* data = nullptr;
  unsigned* count = nullptr;
  CHECK_CUDA(cudaMalloc(&data, 2 * blocks * 32 * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&count, sizeof(unsigned)));
  CHECK_CUDA(cudaMemset(data, 0, 2 * blocks * 32 * sizeof(int)));
  CHECK_CUDA(cudaMemset(count, 0, sizeof(unsigned)));
  void* args[] = {&data, &count, &blocks, &rounds, &relaxed};
  CHECK_CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(turns), dim3(blocks),
                                         dim3(32), args, 0, nullptr));
  // More blocks than fit together are refused, and no sticky error.
  EXPECT(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(turns), dim3(1 << 16),
                                     dim3(1024), args, 0,
                                     nullptr) == cudaErrorCooperativeLaunchTooLarge);
  EXPECT(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);
  CHECK_CUDA(cudaDeviceSynchronize());
  std::vector<int> got(2 * blocks * 32);
  CHECK_CUDA(cudaMemcpy(got.data(), data, got.size() * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < blocks * 32; ++i) EXPECT(got[(rounds % 2) * blocks * 32 + i] == rounds);
  std::puts("grid barrier: right");
  return 0;
}

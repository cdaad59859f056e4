// One process, all devices: the kernels of the devices wait for each other, then each adds what all
// have. With an argument a number of epochs, all launched before the host waits. `relaxed`: the
// signal does not release what was written before it;`early`: nobody waits at the end, so a fast
// device overwrites what a slow one still reads. `alone`: without access to peers.
#include <cuda/atomic>
#include <vector>

#include "check.hpp"

constexpr int kMost = 8;
struct Peers {
  float* data[kMost];
  unsigned* flag[kMost];
};

__device__ void meet(Peers p, int rank, int world, unsigned value, bool relaxed) {
  __syncthreads();
  if (threadIdx.x < world) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_system> mine(p.flag[threadIdx.x][rank]);
    mine.store(value, relaxed ? cuda::memory_order_relaxed : cuda::memory_order_release);
    cuda::atomic_ref<unsigned, cuda::thread_scope_system> theirs(p.flag[rank][threadIdx.x]);
    while (theirs.load(cuda::memory_order_acquire) < value) {
    }
  }
  __syncthreads();
}

__global__ void all_reduce(Peers p, int rank, int world, int n, float* out, unsigned epoch,
                           bool relaxed, bool early) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    p.data[rank][i] = static_cast<float>(rank * 100 + epoch * 10 + i % 7);
  }
  meet(p, rank, world, 2 * epoch - 1, relaxed);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float sum = 0;
    for (int r = 0; r < world; ++r) sum += p.data[r][i];
    out[i] = epoch == 1 ? sum : out[i] + sum;
  }
  if (!early) meet(p, rank, world, 2 * epoch, relaxed);
}

int main(int argc, char** argv) {
  const unsigned epochs = argc > 1 ? std::atoi(argv[1]) : 1;
  const bool relaxed = argc > 2 && std::strcmp(argv[2], "relaxed") == 0;
  const bool early = argc > 2 && std::strcmp(argv[2], "early") == 0;
  const bool alone = argc > 2 && std::strcmp(argv[2], "alone") == 0;
  constexpr int n = 96;
  int world = 0;
  CHECK_CUDA(cudaGetDeviceCount(&world));
  EXPECT(world >= 2 && world <= kMost);
  Peers p{};
  float* out[kMost];
  for (int d = 0; d < world; ++d) {
    CHECK_CUDA(cudaSetDevice(d));
    for (int peer = 0; peer < world && !alone; ++peer) {
      int can = 0;
      if (peer == d) continue;
      CHECK_CUDA(cudaDeviceCanAccessPeer(&can, d, peer));
      EXPECT(can == 1);
      CHECK_CUDA(cudaDeviceEnablePeerAccess(peer, 0));
    }
    CHECK_CUDA(cudaMalloc(&p.data[d], n * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&p.flag[d], kMost * sizeof(unsigned)));
    CHECK_CUDA(cudaMalloc(&out[d], n * sizeof(float)));
    CHECK_CUDA(cudaMemset(p.flag[d], 0, kMost * sizeof(unsigned)));
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  for (unsigned epoch = 1; epoch <= epochs; ++epoch) {
    for (int d = 0; d < world; ++d) {
      CHECK_CUDA(cudaSetDevice(d));
      all_reduce<<<1, 32>>>(p, d, world, n, out[d], epoch, relaxed, early);
      CHECK_CUDA(cudaGetLastError());
    }
  }
  int wrong = 0;
  for (int d = 0; d < world; ++d) {
    CHECK_CUDA(cudaSetDevice(d));
    std::vector<float> got(n);
    CHECK_CUDA(cudaMemcpy(got.data(), out[d], n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) {
      float due = 0;
      for (unsigned epoch = 1; epoch <= epochs; ++epoch) {
        for (int r = 0; r < world; ++r) due += static_cast<float>(r * 100 + epoch * 10 + i % 7);
      }
      wrong += got[i] != due;
    }
  }
  std::printf("%d devices, %u epochs: %d wrong\n", world, epochs, wrong);
  return wrong != 0;
}

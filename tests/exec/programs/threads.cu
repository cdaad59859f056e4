// A host thread for each device: the kernels of all devices wait for each other, and every thread
// waits for its own. `relaxed`: the signal does not release what was written before it.
#include <atomic>
#include <thread>
#include <vector>

#include "check.hpp"

constexpr int kMost = 4;
struct Peers {
  int* data[kMost];
  unsigned* flag[kMost];
};

__global__ void exchange(Peers p, int rank, int world, int* out, unsigned epoch, bool relaxed) {
  p.data[rank][0] = rank * 10 + static_cast<int>(epoch);
  if (!relaxed) __threadfence_system();
  for (int r = 0; r < world; ++r) {
    *static_cast<volatile unsigned*>(p.flag[r] + rank) = epoch;
  }
  int sum = 0;
  for (int r = 0; r < world; ++r) {
    while (*static_cast<volatile unsigned*>(p.flag[rank] + r) < epoch) {
    }
    __threadfence_system();
    sum += p.data[r][0];
  }
  *out = sum;
}

int work(int rank, int world, const Peers& p, bool relaxed) {
  CHECK_CUDA(cudaSetDevice(rank));
  EXPECT(cudaMalloc(nullptr, 1) == cudaErrorInvalidValue);
  for (int peer = 0; peer < world; ++peer) {
    if (peer != rank) CHECK_CUDA(cudaDeviceEnablePeerAccess(peer, 0));
  }
  // A thread's error is its own.
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int *out = nullptr, got = 0;
  CHECK_CUDA(cudaMalloc(&out, sizeof(int)));
  exchange<<<1, 1, 0, stream>>>(p, rank, world, out, 1, relaxed);
  CHECK_CUDA(cudaMemcpyAsync(&got, out, sizeof got, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  int due = 0;
  for (int r = 0; r < world; ++r) due += r * 10 + 1;
  EXPECT(got == due);
  return 0;
}

int main(int argc, char** argv) {
  int world = 0;
  CHECK_CUDA(cudaGetDeviceCount(&world));
  EXPECT(world >= 2 && world <= kMost);
  Peers p{};
  for (int d = 0; d < world; ++d) {
    CHECK_CUDA(cudaSetDevice(d));
    CHECK_CUDA(cudaMalloc(&p.data[d], sizeof(int)));
    CHECK_CUDA(cudaMalloc(&p.flag[d], kMost * sizeof(unsigned)));
    CHECK_CUDA(cudaMemset(p.flag[d], 0, kMost * sizeof(unsigned)));
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int d = 0; d < world; ++d) {
    threads.emplace_back([&, d] { failed += work(d, world, p, asked(argc, argv, "relaxed")); });
  }
  for (std::thread& t : threads) t.join();
  EXPECT(failed == 0);
  std::puts("threads: right");
  return 0;
}

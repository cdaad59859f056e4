// Two streams: one brings pieces and works on them, the other takes them further. `no-event`: the
// second does not wait for the first; `no-wait`: the host reads memory before the copy is over.
#include <vector>

#include "check.hpp"

__global__ void twice(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i];
}
__global__ void plus_one(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] + 1;
}

int main(int argc, char** argv) {
  const bool no_event = asked(argc, argv, "no-event"), no_wait = asked(argc, argv, "no-wait");
  constexpr int pieces = 3, n = 64;
  cudaStream_t first, second;
  CHECK_CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  int *host_in, *host_out, *in, *middle, *out;
  CHECK_CUDA(cudaMallocHost(&host_in, pieces * n * sizeof(int)));
  // Pageable memory has nothing of it before the host has waited.
  if (no_wait) {
    host_out = new int[pieces * n];
    CHECK_CUDA(cudaFreeHost(host_in));
    host_in = new int[pieces * n];
  } else {
    CHECK_CUDA(cudaMallocHost(&host_out, pieces * n * sizeof(int)));
  }
  CHECK_CUDA(cudaMallocAsync(&in, pieces * n * sizeof(int), first));
  CHECK_CUDA(cudaMallocAsync(&middle, pieces * n * sizeof(int), first));
  CHECK_CUDA(cudaMallocAsync(&out, pieces * n * sizeof(int), first));
  cudaEvent_t ready[pieces], begin, end;
  CHECK_CUDA(cudaEventCreate(&begin));
  CHECK_CUDA(cudaEventCreate(&end));
  for (int i = 0; i < pieces * n; ++i) host_in[i] = i;
  std::memset(host_out, 0, pieces * n * sizeof(int));
  CHECK_CUDA(cudaEventRecord(begin, first));
  for (int p = 0; p < pieces; ++p) {
    CHECK_CUDA(cudaEventCreateWithFlags(&ready[p], cudaEventDisableTiming));
    CHECK_CUDA(cudaMemcpyAsync(in + p * n, host_in + p * n, n * sizeof(int), cudaMemcpyHostToDevice,
                               first));
    twice<<<2, 32, 0, first>>>(in + p * n, middle + p * n, n);
    CHECK_CUDA(cudaEventRecord(ready[p], first));
    if (!no_event) CHECK_CUDA(cudaStreamWaitEvent(second, ready[p], 0));
    plus_one<<<2, 32, 0, second>>>(middle + p * n, out + p * n, n);
    CHECK_CUDA(cudaMemcpyAsync(host_out + p * n, out + p * n, n * sizeof(int),
                               cudaMemcpyDeviceToHost, second));
  }
  CHECK_CUDA(cudaEventRecord(end, second));
  if (!no_wait) CHECK_CUDA(cudaEventSynchronize(end));
  for (int i = 0; i < pieces * n; ++i) EXPECT(host_out[i] == 2 * i + 1);
  float ms = -1;
  CHECK_CUDA(cudaEventElapsedTime(&ms, begin, end));
  EXPECT(ms >= 0);
  CHECK_CUDA(cudaFreeAsync(middle, second));
  CHECK_CUDA(cudaStreamSynchronize(second));
  CHECK_CUDA(cudaFree(in));
  CHECK_CUDA(cudaFree(out));
  CHECK_CUDA(cudaFreeHost(host_in));
  CHECK_CUDA(cudaFreeHost(host_out));
  CHECK_CUDA(cudaStreamDestroy(first));
  CHECK_CUDA(cudaStreamDestroy(second));
  std::puts("pipeline: right");
  return 0;
}

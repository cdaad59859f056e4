// Right or wrong by which of two kernels is ahead. Without an argument: both count by atomics, and
// what the second one tells is ordered behind its data. `lost`: both read the counter and write it
// back, so that one increment may be lost; `late`: the first reads data that the second may have
// told of, without an acquire. In turn, as they are launched, all of it is right. `once`: who asks
// whether they are over takes the first answer for the last.
#include "check.hpp"

__global__ void count(unsigned* counter, bool atomic) {
  volatile unsigned* const place = counter;
  if (atomic) {
    atomicAdd(counter, 1);
  } else {
    *place = *place + 1;
  }
}
__global__ void look(const volatile int* told, const int* data, int* out, bool ordered) {
  *out = -1;
  if (*told == 0) return;
  if (ordered) __threadfence();
  *out = *data;
}
__global__ void tell(volatile int* told, int* data) {
  *data = 7;
  __threadfence();
  *told = 1;
}

int main(int argc, char** argv) {
  const bool lost = asked(argc, argv, "lost"), late = asked(argc, argv, "late");
  unsigned* counter;
  int* places;  // told, data, out
  CHECK_CUDA(cudaMalloc(&counter, sizeof *counter));
  CHECK_CUDA(cudaMalloc(&places, 3 * sizeof *places));
  CHECK_CUDA(cudaMemset(counter, 0, sizeof *counter));
  CHECK_CUDA(cudaMemset(places, 0, 3 * sizeof *places));
  cudaStream_t first, second;
  CHECK_CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK_CUDA(cudaDeviceSynchronize());
  count<<<1, 1, 0, first>>>(counter, !lost);
  count<<<1, 1, 0, second>>>(counter, !lost);
  look<<<1, 1, 0, first>>>(places, places + 1, places + 2, !late);
  tell<<<1, 1, 0, second>>>(places, places + 1);
  if (asked(argc, argv, "once")) {
    cudaEvent_t over;
    CHECK_CUDA(cudaEventCreate(&over));
    CHECK_CUDA(cudaEventRecord(over, first));
    CHECK_CUDA(cudaEventQuery(over));
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  unsigned sum = 0;
  int seen = 0;
  CHECK_CUDA(cudaMemcpy(&sum, counter, sizeof sum, cudaMemcpyDeviceToHost));
  CHECK_CUDA(cudaMemcpy(&seen, places + 2, sizeof seen, cudaMemcpyDeviceToHost));
  EXPECT(seen == -1 || seen == 7);
  EXPECT(sum == 2);
  std::puts("seeds: right");
  return 0;
}

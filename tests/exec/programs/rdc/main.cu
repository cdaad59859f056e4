// Two objects, linked with -rdc: what hands a number on is in the other one. `relaxed`: it does not
// order what was written before.
#include "../check.hpp"

extern __device__ unsigned rounds;
extern __device__ void hand_on(unsigned* flag, bool relaxed);
extern __device__ void take(unsigned* flag);

__global__ void relay(int* data, unsigned* flag, int* out, bool relaxed) {
  if (blockIdx.x == 0) {
    *data = 33;
    hand_on(flag, relaxed);
  } else {
    take(flag);
    *out = *data + static_cast<int>(rounds);
  }
}

int main(int argc, char** argv) {
  int *data = nullptr, *out = nullptr, got = 0;
  unsigned *flag = nullptr, more = 9;
  CHECK_CUDA(cudaMalloc(&data, sizeof(int)));
  CHECK_CUDA(cudaMalloc(&out, sizeof(int)));
  CHECK_CUDA(cudaMalloc(&flag, sizeof(unsigned)));
  CHECK_CUDA(cudaMemset(flag, 0, sizeof(unsigned)));
  CHECK_CUDA(cudaMemset(data, 0, sizeof(int)));
  relay<<<2, 1>>>(data, flag, out, asked(argc, argv, "relaxed"));
  CHECK_CUDA(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == 33 + 5);
  CHECK_CUDA(cudaMemcpyToSymbol(rounds, &more, sizeof more));
  CHECK_CUDA(cudaMemset(flag, 0, sizeof(unsigned)));
  relay<<<2, 1>>>(data, flag, out, false);
  CHECK_CUDA(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == 33 + 9);
  std::puts("rdc: right");
  return 0;
}

// Variables that are the host's and every device's. `beside`: the host adds to one while a kernel
// that does the same is pending.
#include "check.hpp"

__managed__ int counter = 3;
__managed__ float table[6] = {1, 2, 4};
__device__ int own = 10;

__global__ void work(int by) {
  counter += by;
  own += 1;
  table[5] = table[2] + static_cast<float>(own);
}

int main(int argc, char** argv) {
  EXPECT(counter == 3 && table[1] == 2 && table[5] == 0);
  counter = 5;
  work<<<1, 1>>>(2);
  if (asked(argc, argv, "beside")) {
    counter += 1;
    CHECK_CUDA(cudaDeviceSynchronize());
    return 0;
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  EXPECT(counter == 7 && table[5] == 4 + 11);
  CHECK_CUDA(cudaSetDevice(1));
  work<<<1, 1>>>(4);
  CHECK_CUDA(cudaDeviceSynchronize());
  EXPECT(counter == 11 && table[5] == 4 + 11);  // its own `own`
  int got = 0;
  const float eight = 8;
  CHECK_CUDA(cudaMemcpyFromSymbol(&got, counter, sizeof got));
  EXPECT(got == 11);
  CHECK_CUDA(cudaMemcpyToSymbol(table, &eight, sizeof eight, 2 * sizeof eight));
  EXPECT(table[2] == 8);
  cudaPointerAttributes of{};
  CHECK_CUDA(cudaPointerGetAttributes(&of, table));
  EXPECT(of.type == cudaMemoryTypeManaged);
  EXPECT(cudaFree(table) == cudaErrorInvalidValue);
  std::puts("managed: right");
  return 0;
}

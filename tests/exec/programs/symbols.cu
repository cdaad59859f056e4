// Variables of the module: on each device its own. `race`: two kernels that nothing orders use
// them.
#include "check.hpp"

__device__ int counter = 5;
__device__ int* where;
__constant__ float factors[4] = {1, 2, 3, 4};
__device__ int table[8];

__global__ void work(float* out) {
  atomicAdd(&counter, 1);
  table[threadIdx.x] = static_cast<int>(threadIdx.x) * 3;
  out[threadIdx.x] = factors[threadIdx.x % 4] * static_cast<float>(where[threadIdx.x]);
}

int main(int argc, char** argv) {
  int devices = 0;
  CHECK_CUDA(cudaGetDeviceCount(&devices));
  for (int d = 0; d < devices; ++d) {
    CHECK_CUDA(cudaSetDevice(d));
    void* at = nullptr;
    size_t bytes = 0;
    CHECK_CUDA(cudaGetSymbolAddress(&at, counter));
    CHECK_CUDA(cudaGetSymbolSize(&bytes, table));
    EXPECT(bytes == sizeof table);
    cudaPointerAttributes of{};
    CHECK_CUDA(cudaPointerGetAttributes(&of, at));
    EXPECT(of.type == cudaMemoryTypeDevice && of.device == d);
    int host[8];
    for (int i = 0; i < 8; ++i) host[i] = i + d;
    int* ints = nullptr;
    float* out = nullptr;
    CHECK_CUDA(cudaMalloc(&ints, sizeof host));
    CHECK_CUDA(cudaMalloc(&out, 8 * sizeof(float)));
    CHECK_CUDA(cudaMemcpy(ints, host, sizeof host, cudaMemcpyDefault));
    CHECK_CUDA(cudaMemcpyToSymbol(where, &ints, sizeof ints));
    const float mine = 7;
    CHECK_CUDA(cudaMemcpyToSymbol(factors, &mine, sizeof mine, 3 * sizeof mine));
    cudaStream_t other;
    CHECK_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    work<<<1, 8>>>(out);
    work<<<1, 8, 0, asked(argc, argv, "race") ? other : nullptr>>>(out);
    CHECK_CUDA(cudaDeviceSynchronize());
    int count = 0, back[8];
    float results[8];
    CHECK_CUDA(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    CHECK_CUDA(cudaMemcpyFromSymbol(back, table, sizeof back));
    CHECK_CUDA(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
    EXPECT(count == 5 + 16);
    for (int i = 0; i < 8; ++i) {
      const float factor = i % 4 == 3 ? 7.f : static_cast<float>(i % 4 + 1);
      EXPECT(back[i] == 3 * i && results[i] == factor * static_cast<float>(i + d));
    }
    EXPECT(cudaMemcpyToSymbol(counter, &count, sizeof count, 4) == cudaErrorInvalidValue);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  }
  std::puts("symbols: right");
  return 0;
}

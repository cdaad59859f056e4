#include "tests/cuda/every_pair.hpp"

#include <cuda_runtime_api.h>

#include "cuda/kernels/element.cuh"

namespace ringfence::tests {
namespace {

constexpr int kValues = 1 << 16;  // of an element

/// Block a: operand a with every b in the low half, and swapped in the high half.
template <class T, PairOperation kOperation>
__global__ void compare(unsigned long long* differ) {
  const uint32_t a = blockIdx.x;
  unsigned long long found = 0;
  for (uint32_t b = threadIdx.x; b < kValues; b += blockDim.x) {
    const uint32_t x = a | b << 16;
    const uint32_t y = b | a << 16;
    const float2 p = cuda::unpack<T>(x);
    const float2 q = cuda::unpack<T>(y);
    if constexpr (kOperation == PairOperation::add) {
      found += cuda::add_pair<T>(x, y) != cuda::pack<T>(__fadd_rn(p.x, q.x), __fadd_rn(p.y, q.y));
    } else {
      found +=
          cuda::multiply_pair<T>(x, y) != cuda::pack<T>(__fmul_rn(p.x, q.x), __fmul_rn(p.y, q.y));
    }
  }
  if (found != 0) atomicAdd(differ, found);
}

template <class T>
void launch(PairOperation operation, unsigned long long* differ) {
  if (operation == PairOperation::add) {
    compare<T, PairOperation::add><<<kValues, 256>>>(differ);
  } else {
    compare<T, PairOperation::multiply><<<kValues, 256>>>(differ);
  }
}

}  // namespace

uint64_t pairs_that_differ(cuda::DataType dtype, PairOperation operation) {
  unsigned long long* differ = nullptr;
  unsigned long long found = ~0ull;
  if (cudaMalloc(&differ, sizeof *differ) != cudaSuccess) return found;
  (void)cudaMemset(differ, 0, sizeof *differ);
  if (dtype == cuda::DataType::bf16) {
    launch<__nv_bfloat16>(operation, differ);
  } else {
    launch<__half>(operation, differ);
  }
  if (cudaMemcpy(&found, differ, sizeof found, cudaMemcpyDeviceToHost) != cudaSuccess)
    found = ~0ull;
  (void)cudaFree(differ);
  return found;
}

}  // namespace ringfence::tests

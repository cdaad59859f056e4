// The product of one rank by cuBLASLt: partial[T, H] = x[T, K] . weight[H, K]^T, fp32 accumulation,
// rounded once to the element type. Everything row-major.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "cuda/kernels/limits.hpp"

namespace ringfence::cuda {

class Product {
 public:
  /// sm_target: how many multiprocessors the product should fill, 0 for all; the others stay free
  /// for kernels that communicate.
  Product(int device, DataType dtype, int inner, int hidden, int sm_target = 0);
  ~Product();
  Product(Product&&) noexcept;
  Product& operator=(Product&&) noexcept;

  /// Chooses the algorithm for this many tokens; enqueue() for them then neither allocates nor
  /// chooses. Throws Error(not_supported) where cuBLASLt has none.
  void prepare(int64_t tokens);

  /// Needs prepare(tokens). tokens == 0 enqueues nothing. Products of one object must not overlap:
  /// they share its workspace.
  void enqueue(const void* x, const void* weight, void* partial, int64_t tokens,
               cudaStream_t stream) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringfence::cuda

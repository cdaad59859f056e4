// The unfused sequence: what the fused kernels are compared with, and the add + RMSNorm that
// follows a library's all-reduce.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/kernels/limits.hpp"
#include "cuda/kernels/tokenweave.hpp"

namespace ringfence::cuda {

struct AddRmsNormArgs {
  const void* input;     // [rows, hidden]: the sum over the ranks
  const void* residual;  // [rows, hidden]
  void* out;             // [rows, hidden]; may be input
  void* residual_out;    // [rows, hidden]; may be residual
  const void* gamma;     // [hidden]
  const void* beta;      // [hidden] or null
  int64_t rows;
  int hidden;            // % 8 == 0, <= kMaxHidden; pointers on 16 bytes
  float eps;
};

/// z = T(input + residual), out = T(T(z * s) * gamma) (+ beta), in tokenweave's roundings: a block a
/// row, the row kept in registers. rows == 0 enqueues nothing.
cudaError_t launch_add_rmsnorm(const AddRmsNormArgs& args, DataType dtype, cudaStream_t stream);

/// For virtual ranks, all of them in one launch. Each rank's own rows of `sum` become the sum of all
/// partials (fp32 in rank order, rounded once).
///   partials: args.replica; rows as in tokenweave
cudaError_t launch_reduce_scatter(const TokenweaveArgs& args, void* const* sum, DataType dtype,
                                  cudaStream_t stream);

/// For virtual ranks: each rank's own rows of `rows` go to every replica.
cudaError_t launch_all_gather(const TokenweaveArgs& args, const void* const* rows, DataType dtype,
                              cudaStream_t stream);

}  // namespace ringfence::cuda

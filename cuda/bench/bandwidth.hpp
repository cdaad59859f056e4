// The two ceilings that bounds are computed from, measured in the same run as what they bound.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace ringfence::cuda {

/// Enqueues a copy by all multiprocessors, 16 bytes a thread and access. bytes % 16 == 0.
cudaError_t launch_copy(const void* from, void* to, size_t bytes, cudaStream_t stream);

/// Enqueues reads of `bytes` at `from` (another GPU's memory, say); keeps nothing.
cudaError_t launch_read(const void* from, size_t bytes, cudaStream_t stream);

/// Enqueues filling with bf16 or fp16 numbers of magnitude about 1, different by `seed`.
cudaError_t launch_fill(void* to, size_t elements, bool bf16, unsigned seed, cudaStream_t stream);

}  // namespace ringfence::cuda

// The original's entry point as a C function: one rank's slice, its multicast address and the table
// of signal pads, as PyTorch's symmetric memory hands them out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

extern "C" {

/// A contiguous row-major tensor [tokens, hidden] on the current device.
struct RingfenceTensor {
  void* data;
  int64_t tokens;
  int64_t hidden;
  int32_t dtype;  // 0 bf16, 1 fp16
};

/// Reduce-scatter + residual add + RMSNorm + all-gather of the rank's slice, in place, through
/// multicast. Returns 0, or a cudaError_t; never throws. Enqueues on `stream`.
///
///   input        the rank's rows of its replica: `tokens` rows are this rank's slice. Every rank
///                has as many (the caller pads)
///   residual     the same rows; in and out. weight: [hidden]
///   mcptr        the multicast address of those rows (already offset to the slice)
///   signal_pads  address of a device array of world_size pointers, one to each rank's pad of at
///                least MAX_CTAS * world_size words, all zero
///   MAX_CTAS     blocks to launch, <= 0 for 8
///
/// cudaErrorInvalidValue: a null pointer, a rank outside the world, hidden % 8 != 0 or beyond the
/// limit, pointers not on 16 bytes, shapes that disagree. cudaErrorNotSupported: a switch that turns
/// multicast off is set (see cuda/host/multicast_gate.hpp).
int fused_rs_ln_ag_cta(const RingfenceTensor* input, const RingfenceTensor* residual,
                       const RingfenceTensor* weight, int64_t mcptr, int64_t signal_pads,
                       int64_t rank, int64_t world_size, int64_t MAX_CTAS, double epsilon,
                       cudaStream_t stream);

/// The same through unicast: `peers` is a host array of world_size addresses, each rank's replica of
/// the same slice (this rank's rows in it), in place of mcptr.
int fused_rs_ln_ag_cta_peer(const RingfenceTensor* input, const RingfenceTensor* residual,
                            const RingfenceTensor* weight, void* const* peers, int64_t signal_pads,
                            int64_t rank, int64_t world_size, int64_t MAX_CTAS, double epsilon,
                            cudaStream_t stream);

}  // extern "C"

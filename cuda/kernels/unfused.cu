// The unfused sequence of kernels. Kernel boundaries order them, so all accesses are weak.
#include "cuda/kernels/divide.hpp"
#include "cuda/kernels/element.cuh"
#include "cuda/kernels/ptx/memory.cuh"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/tokenweave_math.cuh"
#include "cuda/kernels/unfused.hpp"

namespace ringfence::cuda {
namespace {

template <class T, int kVectors>
__global__ void __launch_bounds__(kMaxThreads)
    add_rmsnorm(const __grid_constant__ AddRmsNormArgs args, float reciprocal) {
  __shared__ float warp_sums[1][kMaxWarps];
  const int vectors = args.hidden / kVector;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * vectors;
  const auto at = [](const void* base, int64_t row, int column) {
    return static_cast<const uint4*>(base) + row + column;
  };
  uint4 z[kVectors];
  float sum[1] = {0.0f};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int column = threadIdx.x + k * blockDim.x;
    if (column < vectors) {
      z[k] = add_rounded<T>(ptx::ld_weak_16(at(args.input, row, column)),
                            ptx::ld_weak_16(at(args.residual, row, column)));
      sum[0] = __fadd_rn(sum[0], sum_squares<T>(z[k]));
    }
  }
  blockReduceSum(sum, warp_sums);
  const float scale = rsqrtf(
      __fadd_rn(divide_by_whole(sum[0], static_cast<float>(args.hidden), reciprocal), args.eps));
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int column = threadIdx.x + k * blockDim.x;
    if (column < vectors) {
      ptx::st_weak_16(static_cast<uint4*>(args.residual_out) + row + column, z[k]);
      const uint4 gamma = ptx::ld_weak_16(at(args.gamma, 0, column));
      const uint4 y = args.beta == nullptr
                          ? normalise<T, false>(z[k], scale, gamma, uint4{})
                          : normalise<T, true>(z[k], scale, gamma,
                                               ptx::ld_weak_16(at(args.beta, 0, column)));
      ptx::st_weak_16(static_cast<uint4*>(args.out) + row + column, y);
    }
  }
}

struct Rows {
  void* base[kMaxRanks];
};

/// Rank of the vector with this index in the whole tensor, all ranks' own rows laid end to end.
__device__ __forceinline__ int owner(uint32_t vector, uint32_t vectors_a_rank) {
  return static_cast<int>(vector / vectors_a_rank);
}

template <class T>
__global__ void __launch_bounds__(512)
    reduce_scatter(const __grid_constant__ TokenweaveArgs args, const __grid_constant__ Rows sum,
                   uint32_t vectors, uint32_t vectors_a_rank) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors;
       i += gridDim.x * blockDim.x) {
    uint4 part[kMaxRanks];
#pragma unroll
    for (int r = 0; r < kMaxRanks; ++r) {
      if (r < args.world) {
        part[r] = ptx::ld_weak_16(static_cast<const uint4*>(args.replica[r]) + i);
      }
    }
    uint4 v;
#pragma unroll
    for (int p = 0; p < kVector / 2; ++p) {
      float2 s = unpack<T>(pair(part[0], p));
#pragma unroll
      for (int r = 1; r < kMaxRanks; ++r) {
        if (r < args.world) {
          const float2 q = unpack<T>(pair(part[r], p));
          s.x = __fadd_rn(s.x, q.x);
          s.y = __fadd_rn(s.y, q.y);
        }
      }
      pair(v, p) = pack<T>(s.x, s.y);
    }
    ptx::st_weak_16(static_cast<uint4*>(sum.base[owner(i, vectors_a_rank)]) + i, v);
  }
}

__global__ void __launch_bounds__(512)
    all_gather(const __grid_constant__ TokenweaveArgs args, const __grid_constant__ Rows rows,
               uint32_t vectors, uint32_t vectors_a_rank) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors;
       i += gridDim.x * blockDim.x) {
    const uint4 v =
        ptx::ld_weak_16(static_cast<const uint4*>(rows.base[owner(i, vectors_a_rank)]) + i);
    for (int r = 0; r < args.world; ++r) {
      ptx::st_weak_16(static_cast<uint4*>(args.replica[r]) + i, v);
    }
  }
}

int grid_for(int64_t items, int threads) {
  const int64_t blocks = (items + threads - 1) / threads;
  return static_cast<int>(blocks < 132 * 16 ? blocks : 132 * 16);
}

struct Extent {
  uint32_t vectors;  // fits: the host refuses larger tensors
  uint32_t a_rank;
};
Extent extent_of(const TokenweaveArgs& args) {
  const int64_t row = args.hidden / kVector;
  return {static_cast<uint32_t>(args.tokens * row),
          static_cast<uint32_t>(owned_rows(args.tokens, args.world, 0).count * row)};
}

}  // namespace

cudaError_t launch_add_rmsnorm(const AddRmsNormArgs& args, DataType dtype, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  const float reciprocal = 1.0f / static_cast<float>(args.hidden);
  const dim3 grid(static_cast<unsigned>(args.rows));
  const dim3 block(static_cast<unsigned>(tokenweave_threads(args.hidden)));
  const bool two = args.hidden > kMaxThreads * kVector;
  if (dtype == DataType::bf16) {
    if (two) {
      add_rmsnorm<__nv_bfloat16, 2><<<grid, block, 0, stream>>>(args, reciprocal);
    } else {
      add_rmsnorm<__nv_bfloat16, 1><<<grid, block, 0, stream>>>(args, reciprocal);
    }
  } else if (two) {
    add_rmsnorm<__half, 2><<<grid, block, 0, stream>>>(args, reciprocal);
  } else {
    add_rmsnorm<__half, 1><<<grid, block, 0, stream>>>(args, reciprocal);
  }
  return cudaGetLastError();
}

cudaError_t launch_reduce_scatter(const TokenweaveArgs& args, void* const* sum, DataType dtype,
                                  cudaStream_t stream) {
  const Extent extent = extent_of(args);
  if (extent.vectors == 0) return cudaSuccess;
  Rows rows{};
  for (int r = 0; r < args.world; ++r) rows.base[r] = sum[r];
  const int grid = grid_for(extent.vectors, 512);
  if (dtype == DataType::bf16) {
    reduce_scatter<__nv_bfloat16>
        <<<grid, 512, 0, stream>>>(args, rows, extent.vectors, extent.a_rank);
  } else {
    reduce_scatter<__half><<<grid, 512, 0, stream>>>(args, rows, extent.vectors, extent.a_rank);
  }
  return cudaGetLastError();
}

cudaError_t launch_all_gather(const TokenweaveArgs& args, const void* const* from, DataType,
                              cudaStream_t stream) {
  const Extent extent = extent_of(args);
  if (extent.vectors == 0) return cudaSuccess;
  Rows rows{};
  for (int r = 0; r < args.world; ++r) rows.base[r] = const_cast<void*>(from[r]);
  all_gather<<<grid_for(extent.vectors, 512), 512, 0, stream>>>(args, rows, extent.vectors,
                                                                extent.a_rank);
  return cudaGetLastError();
}

}  // namespace ringfence::cuda

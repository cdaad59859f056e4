// Body of the tokenweave kernel, over a transport. One block handles rows of one rank; a thread
// keeps its vectors of the row in registers from the sum to the store.
//
// What limits it is bytes in flight: between the loads of a row and its stores lies a reduction
// over the block. So rows are taken in batches of kRows with one reduction a batch, and the loads of
// what comes kStages vectors later are issued as soon as a vector's registers are free: they are
// under way while the batch is reduced, normalised and stored. Residual and gamma are the rank's own
// and are asked for before the start barrier.
#pragma once

#include "cuda/kernels/divide.hpp"
#include "cuda/kernels/element.cuh"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/signals.cuh"
#include "cuda/kernels/tokenweave.hpp"
#include "cuda/kernels/tokenweave_math.cuh"
#include "cuda/kernels/transport.cuh"

namespace ringfence::cuda {

/// kVectors: vectors that a thread has of a row. kRows: rows a batch. kStages: vectors whose loads
/// are in flight; a batch is a whole number of rounds through the stages.
template <class T, class TransportT, int kVectors, int kRows, int kStages, Order kStartPut,
          Order kStartWait>
__device__ __forceinline__ void tokenweave_body(const TokenweaveArgs& args) {
  constexpr bool kAligned = TransportT::kAligned;
  constexpr int kUnits = kRows * kVectors;  // vectors a thread and batch
  static_assert(kUnits % kStages == 0, "a unit must find its stage at compile time");
  __shared__ float warp_sums[2][kRows][kMaxWarps];
  // A thread reads only the vectors of gamma that it wrote itself: no barrier, and 4 registers less
  // a vector than keeping them.
  __shared__ uint4 gamma[kVectors][kMaxThreads];

  const int rank = args.first_rank + static_cast<int>(blockIdx.x) / args.blocks;
  const int block = static_cast<int>(blockIdx.x) % args.blocks;
  const int vectors = (args.hidden + kVector - 1) / kVector;
  // The loop reads its pointers from shared memory when it needs them, which keeps them out of
  // registers that the loads in flight want.
  __shared__ TokenweaveArgs::Local local;
  if (threadIdx.x == 0) local = args.local[rank];
  const RowRange own = owned_rows(args.tokens, args.world, rank);
  const TransportT transport(args.replica, args.multicast, args.world);
  uint32_t* const* pads = args.pad_table != nullptr ? args.pad_table : args.pad;

  const int first = static_cast<int>(own.first);
  const int last = static_cast<int>(own.first + own.count);
  const int residual_row0 = args.residual_sharded ? first : 0;

  // This thread's vector number k of a row: its column, whether it exists, how long it is.
  const auto column = [&](int k) { return static_cast<int>(threadIdx.x + k * blockDim.x); };
  const auto exists = [&](int k) { return column(k) < vectors; };
  const auto valid = [&](int k) {
    const int left = args.hidden - column(k) * kVector;
    return left < kVector ? left : kVector;
  };
  const auto place = [&](int row, int k) -> Place<kAligned> {
    if constexpr (kAligned) {
      return static_cast<uint32_t>(row) * vectors + column(k);
    } else {
      return static_cast<int64_t>(row) * args.hidden + column(k) * kVector;
    }
  };

  typename TransportT::Fragment fragment[kStages];
  uint4 residual[kStages];
  uint4 z[kUnits];

  const auto load_residual = [&](const void* from, uint4& to, int row, int k) {
    if (row < last && exists(k)) {
      to = load_local<kAligned>(from, place(row - residual_row0, k), valid(k));
    }
  };
  const auto load_parts = [&](typename TransportT::Fragment& to, int row, int k) {
    if (row < last && exists(k)) transport.load(to, place(row, k), valid(k));
  };

#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (exists(k)) {
      gamma[k][threadIdx.x] = load_local<kAligned>(
          args.local[rank].gamma, kAligned ? column(k) : column(k) * kVector, valid(k));
    }
  }
#pragma unroll
  for (int s = 0; s < kStages; ++s) {
    load_residual(args.local[rank].residual, residual[s],
                  first + block + s / kVectors * args.blocks, s % kVectors);
  }

  // 1. The peers have written their partials.
  sync_remote_blocks<kStartPut, kStartWait>(pads, rank, args.world, block, SignalKind::start_put,
                                            args.spin);
  __syncthreads();
#pragma unroll
  for (int s = 0; s < kStages; ++s) {
    load_parts(fragment[s], first + block + s / kVectors * args.blocks, s % kVectors);
  }

  const float hidden_f = static_cast<float>(args.hidden);
  const float reciprocal = args.hidden_reciprocal;
  int parity = 0;
  for (int base = first + block; base < last; base += kRows * args.blocks) {
    // 2. Sum over the ranks, residual, squares.
    float sum[kRows];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int k = u % kVectors;
      const int row = base + u / kVectors * args.blocks;
      const int ahead = base + (u + kStages) / kVectors * args.blocks;
      if (k == 0) sum[u / kVectors] = 0.0f;
      // Where a thread has one vector or none there is no more to decide. With several, a stage
      // serves vectors of which the thread may lack the last: each access decides for itself.
      if (kVectors == 1 && !exists(0)) continue;
      if (kVectors == 1 || exists(k)) {
        z[u] = add_rounded<T>(transport.sum(fragment[u % kStages]), residual[u % kStages]);
      }
      // The stage is free: ask for what comes kStages vectors later.
      load_parts(fragment[u % kStages], ahead, (u + kStages) % kVectors);
      load_residual(local.residual, residual[u % kStages], ahead, (u + kStages) % kVectors);
      if (kVectors == 1 || exists(k)) {
        if (kRows == 1 || row < last) {
          store_local<kAligned>(local.residual_out, place(row - residual_row0, k), z[u], valid(k));
        }
        sum[u / kVectors] = __fadd_rn(sum[u / kVectors], sum_squares<T>(z[u]));
      }
    }
    blockReduceSum(sum, warp_sums[parity]);
    parity ^= 1;
    // 3. Normalise and store on every rank.
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int k = u % kVectors;
      const int row = base + u / kVectors * args.blocks;
      if ((kRows == 1 || row < last) && exists(k)) {
        const float mean = divide_by_whole(sum[u / kVectors], hidden_f, reciprocal);
        const float scale = rsqrtf(__fadd_rn(mean, args.eps));
        uint4 y;
        if (local.beta == nullptr) {
          y = normalise<T, false>(z[u], scale, gamma[k][threadIdx.x], uint4{});
        } else {
          y = normalise<T, true>(z[u], scale, gamma[k][threadIdx.x],
                                 load_local<kAligned>(local.beta,
                                                      kAligned ? column(k) : column(k) * kVector,
                                                      valid(k)));
        }
        transport.store(place(row, k), y, valid(k));
      }
    }
  }

  // 4. All ranks' rows are everywhere. Release: the block barrier orders the whole block's stores
  // before the put. Acquire: what follows on the stream may read with weak loads.
  __syncthreads();
  sync_remote_blocks<Order::release, Order::acquire>(pads, rank, args.world, block,
                                                     SignalKind::end_put, args.spin);
}

}  // namespace ringfence::cuda

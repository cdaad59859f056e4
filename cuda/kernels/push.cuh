// Body of the push kernel (push.hpp). Block b of each rank handles the rows b, b + blocks, ... of
// each rank's own rows, so it hears from block b of the peers only.
#pragma once

#include "cuda/kernels/divide.hpp"
#include "cuda/kernels/element.cuh"
#include "cuda/kernels/ptx/launch.cuh"
#include "cuda/kernels/push.hpp"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/signals.cuh"
#include "cuda/kernels/tokenweave_math.cuh"
#include "cuda/kernels/transport.cuh"

namespace ringfence::cuda {

template <class T, int kWorld, int kVectors>
class Push {
  static constexpr int kPeers = kWorld - 1;
  static constexpr int kBatch = 4;  // vectors of peers' rows in flight

 public:
  __device__ Push(const PushArgs& args)
      : args_(args),
        rank_(args.common.first_rank + static_cast<int>(blockIdx.x) / args.common.blocks),
        block_(static_cast<int>(blockIdx.x) % args.common.blocks),
        vectors_(args.common.hidden / kVector) {}

  __device__ void run() {
    ptx::follow_launch_before();
    // Every thread reads it, so that the first loads of partials need not wait for a block barrier.
    // The block that is last to have read it changes it.
    // Strong on both sides: the relaxed arrivals order nothing, so weak accesses would race.
    const uint32_t launches = ptx::ld_relaxed_sys(args_.state[rank_]);
    const int64_t half = push_half_rows(args_.max_tokens, kWorld);
    half_row_ = (launches & 1u) != 0 ? static_cast<uint32_t>(half) : 0u;
    send_partials();
    finish_own_rows();
    __syncthreads();
    uint32_t* const state = args_.state[rank_];
    uint32_t read_before = 0;  // blocks
    if (threadIdx.x == 0) read_before = atomicAdd(state + 1, 1u);
    receive_rows();
    if (threadIdx.x == 0 && read_before == static_cast<uint32_t>(args_.common.blocks) - 1) {
      ptx::st_relaxed_sys(state + 1, 0);
      ptx::st_relaxed_sys(state, launches + 1);
    }
  }

 private:
  /// A row of another rank that this block handles, and the rank's distance from the own one.
  struct Item {
    int peer;
    int row;    // of the tensor
    int place;  // among the peer's own rows
    bool there;
  };
  /// Number n of the block's items, which run over the peers first. Null where kWorld is 1.
  __device__ __forceinline__ Item item(int n) const {
    const int away = n % kPeers + 1;
    const int peer = rank_ + away < kWorld ? rank_ + away : rank_ + away - kWorld;
    const RowRange rows = owned_rows(args_.common.tokens, kWorld, peer);
    const int place = block_ + n / kPeers * args_.common.blocks;
    return {peer, static_cast<int>(rows.first) + place, place, place < rows.count};
  }
  /// Rank 0 has the most rows.
  __device__ int items() const {
    const int rows = static_cast<int>(owned_rows(args_.common.tokens, kWorld, 0).count);
    const int mine = rows > block_ ? (rows - block_ - 1) / args_.common.blocks + 1 : 0;
    return mine * kPeers;
  }

  __device__ __forceinline__ int column(int k) const {
    return static_cast<int>(threadIdx.x + k * blockDim.x);
  }
  __device__ __forceinline__ char* vector_of(const void* base, uint32_t row, int k) const {
    return address_of<true>(base, row * vectors_ + column(k));
  }
  __device__ __forceinline__ char* own(int row, int k) const {
    return vector_of(args_.common.replica[rank_], static_cast<uint32_t>(row), k);
  }
  /// Where a rank gets the partial of `from` for its own row number `place`.
  __device__ __forceinline__ char* partial_box(int rank, int from, int place, int k) const {
    const uint32_t each = static_cast<uint32_t>(push_rows_each(args_.max_tokens, kWorld));
    return vector_of(args_.mailbox[rank],
                     half_row_ + static_cast<uint32_t>(from) * each + static_cast<uint32_t>(place),
                     k);
  }
  /// Where a rank gets a finished row of another.
  __device__ __forceinline__ char* row_box(int rank, int row, int k) const {
    const uint32_t each = static_cast<uint32_t>(push_rows_each(args_.max_tokens, kWorld));
    return vector_of(args_.mailbox[rank], half_row_ + each * kWorld + static_cast<uint32_t>(row),
                     k);
  }

  static __device__ __forceinline__ bool has_come(uint4 v) {
    return v.x != kNotCome && v.y != kNotCome && v.z != kNotCome && v.w != kNotCome;
  }
  static __device__ __forceinline__ void send(char* to, uint4 v) {
    constexpr uint32_t kNans = 0x7fff7fffu;  // in bf16 and fp16
#pragma unroll
    for (int i = 0; i < kVector / 2; ++i) {
      if (pair(v, i) == kNotCome) pair(v, i) = kNans;
    }
    ptx::st_relaxed_sys_16(to, v);
  }

  /// Waits until a vector that was loaded from `from` has come, and clears its place.
  __device__ __forceinline__ void receive(uint4& v, char* from, int peer, int row) const {
    if (!has_come(v)) {
      const SpinPlace place{static_cast<uint32_t>(rank_), static_cast<uint32_t>(block_),
                            static_cast<uint32_t>(peer), static_cast<uint32_t>(row),
                            SignalKind::data_wait};
      SpinWatch watch(args_.common.spin);
      do {
        v = ptx::ld_relaxed_sys_16(from);
      } while (!has_come(v) && !watch.expired(place, v.x));
    }
    ptx::st_relaxed_sys_16(from, uint4{kNotCome, kNotCome, kNotCome, kNotCome});
  }

  /// 1. The own partials of the peers' rows, into the peers' mailboxes. The product has written
  /// them in an earlier launch of the same stream.
  __device__ __forceinline__ void send_partials() const {
    const int count = items();
    for (int n = 0; n < count; n += kBatch) {
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        if (column(k) >= vectors_) continue;
        uint4 v[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const Item it = item(n + i);
          if (n + i < count && it.there) v[i] = ptx::ld_weak_16(own(it.row, k));
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const Item it = item(n + i);
          if (n + i < count && it.there) send(partial_box(it.peer, rank_, it.place, k), v[i]);
        }
      }
    }
  }

  /// One vector of an own row: the sum of the ranks' parts, in fp32 in rank order, rounded once.
  /// kBatch parts are in flight.
  __device__ __forceinline__ uint4 receive_sum(int row, int place, int k) const {
    float2 sum[kVector / 2];
#pragma unroll
    for (int first = 0; first < kWorld; first += kBatch) {
      uint4 part[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch && first + i < kWorld; ++i) {
        const int r = first + i;
        part[i] =
            ptx::ld_relaxed_sys_16(r == rank_ ? own(row, k) : partial_box(rank_, r, place, k));
      }
#pragma unroll
      for (int i = 0; i < kBatch && first + i < kWorld; ++i) {
        const int r = first + i;
        if (r != rank_) receive(part[i], partial_box(rank_, r, place, k), r, row);
#pragma unroll
        for (int p = 0; p < kVector / 2; ++p) {
          const float2 q = unpack<T>(pair(part[i], p));
          sum[p] = r == 0 ? q : float2{__fadd_rn(sum[p].x, q.x), __fadd_rn(sum[p].y, q.y)};
        }
      }
    }
    uint4 v;
#pragma unroll
    for (int p = 0; p < kVector / 2; ++p) pair(v, p) = pack<T>(sum[p].x, sum[p].y);
    return v;
  }

  /// 2. The own rows: the sum over the ranks in rank order, add, RMSNorm; to the own replica and
  /// into the peers' mailboxes.
  __device__ __forceinline__ void finish_own_rows() const {
    __shared__ float warp_sums[2][1][kMaxWarps];
    const TokenweaveArgs::Local& local = args_.common.local[rank_];
    const RowRange rows = owned_rows(args_.common.tokens, kWorld, rank_);
    const int first = static_cast<int>(rows.first);
    const int residual_row0 = args_.common.residual_sharded ? first : 0;
    const float hidden_f = static_cast<float>(args_.common.hidden);
    // Under way while the first parts are awaited.
    uint4 gamma[kVectors];
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (column(k) < vectors_) gamma[k] = ptx::ld_weak_16(vector_of(local.gamma, 0, k));
    }
    int parity = 0;
    for (int place = block_; place < rows.count; place += args_.common.blocks) {
      const int row = first + place;
      const uint32_t residual_row = static_cast<uint32_t>(row - residual_row0);
      uint4 z[kVectors];
      float sum[1] = {0.0f};
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        if (column(k) >= vectors_) continue;
        const uint4 residual = ptx::ld_weak_16(vector_of(local.residual, residual_row, k));
        z[k] = add_rounded<T>(receive_sum(row, place, k), residual);
        ptx::st_weak_16(vector_of(local.residual_out, residual_row, k), z[k]);
        sum[0] = __fadd_rn(sum[0], sum_squares<T>(z[k]));
      }
      blockReduceSum(sum, warp_sums[parity]);
      parity ^= 1;
      const float mean = divide_by_whole(sum[0], hidden_f, args_.common.hidden_reciprocal);
      const float scale = rsqrtf(__fadd_rn(mean, args_.common.eps));
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        if (column(k) >= vectors_) continue;
        const uint4 y = local.beta == nullptr
                            ? normalise<T, false>(z[k], scale, gamma[k], uint4{})
                            : normalise<T, true>(z[k], scale, gamma[k],
                                                 ptx::ld_weak_16(vector_of(local.beta, 0, k)));
#pragma unroll
        for (int away = 1; away < kWorld; ++away) {
          const int peer = rank_ + away < kWorld ? rank_ + away : rank_ + away - kWorld;
          send(row_box(peer, row, k), y);
        }
        ptx::st_weak_16(own(row, k), y);
      }
    }
  }

  /// 3. The peers' finished rows, into the own replica. A row can only have come after its owner
  /// has taken this rank's partial of it, so nothing that is still to be sent is overwritten.
  __device__ __forceinline__ void receive_rows() const {
    const int count = items();
    for (int n = 0; n < count; n += kBatch) {
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        if (column(k) >= vectors_) continue;
        uint4 v[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const Item it = item(n + i);
          if (n + i < count && it.there) v[i] = ptx::ld_relaxed_sys_16(row_box(rank_, it.row, k));
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const Item it = item(n + i);
          if (n + i < count && it.there) {
            receive(v[i], row_box(rank_, it.row, k), it.peer, it.row);
            ptx::st_weak_16(own(it.row, k), v[i]);
          }
        }
      }
    }
  }

  const PushArgs& args_;
  const int rank_;
  const int block_;
  const int vectors_;
  uint32_t half_row_ = 0;
};

}  // namespace ringfence::cuda

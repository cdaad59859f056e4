// The products of the pypto kernel: tile rows x chunk of hidden columns, [rows, inner] . [columns,
// inner]^T, and how a block's share of it goes into the ranks' tiles.
//
//   NarrowProduct  8 or 64 rows: computed transposed, out^T[h, t] = weight[h, :] . x[t, :], so that
//                  the few rows are the narrow side of a wgmma and waste nothing. The result is
//                  transposed through shared memory.
//   WideProduct    128 rows: out[t, h], 64 rows a warpgroup and 256 columns. A block reads 48 KiB
//                  for 128 x 256 x 64 products, a quarter less than a square of the same rows: what
//                  limits large tiles is operands read from L2. The result is put from registers.
//
// Both have chunks of half as many columns, for where whole ones would leave blocks without any.
//
// Blocks are alone: clusters in which two or four blocks share the weight, the rows of x or both by
// the copy engine took 1.05 to 3 times as long in every case measured (cuda/bench/results, session
// e), where two blocks that read the same find it in L2.
#pragma once

#include "cuda/kernels/element.cuh"
#include "cuda/kernels/ptx/memory.cuh"
#include "cuda/kernels/ptx/wgmma.cuh"
#include "cuda/kernels/pypto.hpp"

namespace ringfence::cuda {

inline constexpr int kPyptoConsumers = 256;
inline constexpr int kPyptoConsumerBarrier = 1;

/// Where a thread's vectors of a chunk go; called for each vector of 8 columns that exists.
///   put(row of the tile, column of the chunk, vector)

template <int kTileRows, int kColumns>
struct NarrowProduct {
  static constexpr int kRows = kTileRows;
  static constexpr int kChunk = kColumns;
  static constexpr bool kWhole = kChunk == 128;
  static_assert(kWhole || kChunk == 64);
  // A warpgroup multiplies 64 columns. Of half a chunk, which has no more, each takes half of the
  // rows. 8 rows are the least that there is: there both multiply all of them and the first
  // delivers, since the weight is not there any sooner and a branch would serialise the products.
  static constexpr bool kTwice = !kWhole && kRows == 8;
  static constexpr int kGroupRows = kWhole || kTwice ? kRows : kRows / 2;
  static constexpr int kStages = kRows == 64 ? (kWhole ? 7 : 11) : (kWhole ? 10 : 20);
  static constexpr int kAccumulators = kGroupRows / 2;
  // A row of the staged product is 16 bytes longer than it need be: transposing stores then meet no
  // bank twice.
  static constexpr int kPitch = kChunk + 8;
  static constexpr int kStagingBytes = kRows * kPitch * 2;

  /// One k16 step of a stage; `group`: of the two multiplying warpgroups.
  static __device__ __forceinline__ void multiply(float (&d)[kAccumulators], uint32_t weight,
                                                  uint32_t x, int group, bool accumulate) {
    constexpr int kBytes = kPyptoInner * 2;  // a row of an operand
    const int weight_row = kWhole ? group * 64 : 0;
    const int x_row = kGroupRows == kRows ? 0 : group * kGroupRows;
    ptx::wgmma_bf16<kGroupRows>(
        d, ptx::wgmma_descriptor(weight + static_cast<uint32_t>(weight_row * kBytes)),
        ptx::wgmma_descriptor(x + static_cast<uint32_t>(x_row * kBytes)), accumulate);
  }

  /// Called by all consumers. sync: their barrier.
  template <class Sync, class Put>
  static __device__ __forceinline__ void deliver(float (&d)[kAccumulators], char* staging,
                                                 int thread, int rows, const Sync& sync,
                                                 const Put& put) {
    uint16_t* product = reinterpret_cast<uint16_t*>(staging);
    sync();  // the chunk before has been put: the staging is free
    const int group = thread / 128;
    const int lane = thread % 32;
    const int h = (kWhole ? group * 64 : 0) + thread % 128 / 32 * 16 + lane / 4;
    const int t0 = kGroupRows == kRows ? 0 : group * kGroupRows;
    if (!kTwice || group == 0) {
#pragma unroll
      for (int j = 0; j < kGroupRows / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int t = t0 + 8 * j + lane % 4 * 2 + i % 2;
          product[t * kPitch + h + i / 2 * 8] =
              __bfloat16_as_ushort(__float2bfloat16_rn(d[4 * j + i]));
        }
      }
    }
    sync();
    constexpr int kVectors = kChunk / kVector;
    for (int i = thread; i < rows * kVectors; i += kPyptoConsumers) {
      const int row = i / kVectors;
      const int column = i % kVectors * kVector;
      put(row, column, *reinterpret_cast<const uint4*>(product + row * kPitch + column));
    }
  }
};

template <int kColumns>
struct WideProduct {
  static constexpr int kRows = 128;
  static constexpr int kChunk = kColumns;
  static_assert(kChunk == 256 || kChunk == 128);
  static constexpr int kStages = kChunk == 256 ? 4 : 6;
  static constexpr int kAccumulators = kChunk / 2;
  static constexpr int kStagingBytes = 0;

  static __device__ __forceinline__ void multiply(float (&d)[kAccumulators], uint32_t weight,
                                                  uint32_t x, int group, bool accumulate) {
    ptx::wgmma_bf16<kChunk>(
        d, ptx::wgmma_descriptor(x + static_cast<uint32_t>(group * 64 * kPyptoInner * 2)),
        ptx::wgmma_descriptor(weight), accumulate);
  }

  template <class Sync, class Put>
  static __device__ __forceinline__ void deliver(float (&d)[kAccumulators], char* /*staging*/,
                                                 int thread, int rows, const Sync& /*sync*/,
                                                 const Put& put) {
#pragma unroll
    for (int n = 0; n < kAccumulators / kVector / 2; ++n) {
      uint4 vector[2];
      take_two(d, thread, n, vector);
      const int lane = thread % 32;
      const int row = thread / 32 * 16 + lane / 8 * 2 + n % 2 * 8;
      const int column = (n / 2 * 8 + lane % 8) * 8;
      if (row < rows) put(row, column, vector[0]);
      if (row + 1 < rows) put(row + 1, column, vector[1]);
    }
  }

 private:
  /// A thread's vectors 2 n and 2 n + 1: of two neighbouring rows, in such columns that eight lanes
  /// have 128 bytes of a row, a whole line: 1 to 3 % faster than halves of lines.
  static __device__ __forceinline__ void take_two(const float (&d)[kAccumulators], int thread,
                                                  int n, uint4 (&vector)[2]) {
    uint32_t w[2][4];  // columns 2 q, 2 q + 1 of 8 groups of 8, of one row
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int at = 4 * (n / 2 * 8 + i) + 2 * (n % 2);
      w[i / 4][i % 4] = pack<__nv_bfloat16>(d[at], d[at + 1]);
    }
    const int lane = thread % 32;
    const uint4 low = transposed_in_quad(w[0], lane);
    const uint4 high = transposed_in_quad(w[1], lane);
    const bool odd = lane & 4;
    const uint4 given = odd ? low : high;
    constexpr unsigned kAll = 0xffffffffu;
    const uint4 got{__shfl_xor_sync(kAll, given.x, 4), __shfl_xor_sync(kAll, given.y, 4),
                    __shfl_xor_sync(kAll, given.z, 4), __shfl_xor_sync(kAll, given.w, 4)};
    vector[0] = odd ? got : low;
    vector[1] = odd ? high : got;
  }

  /// Lane q of four neighbours has columns 2q, 2q + 1 of four groups of 8 columns; it gets all of
  /// group q.
  static __device__ __forceinline__ uint4 transposed_in_quad(const uint32_t (&w)[4], int lane) {
    constexpr unsigned kAll = 0xffffffffu;
    const bool odd = lane & 1;
    const bool high = lane & 2;
    const uint32_t r0 = __shfl_xor_sync(kAll, odd ? w[0] : w[1], 1);
    const uint32_t r1 = __shfl_xor_sync(kAll, odd ? w[2] : w[3], 1);
    // (a0, a1): of group odd, from the lanes of the own pair; (a2, a3): of group 2 + odd.
    const uint32_t a0 = odd ? r0 : w[0];
    const uint32_t a1 = odd ? w[1] : r0;
    const uint32_t a2 = odd ? r1 : w[2];
    const uint32_t a3 = odd ? w[3] : r1;
    const uint32_t u0 = __shfl_xor_sync(kAll, high ? a0 : a2, 2);
    const uint32_t u1 = __shfl_xor_sync(kAll, high ? a1 : a3, 2);
    return high ? uint4{u0, u1, a2, a3} : uint4{a0, a1, u0, u1};
  }
};

}  // namespace ringfence::cuda

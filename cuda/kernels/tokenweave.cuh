// Body of the tokenweave kernel, over a transport. One block handles rows of one rank; a thread
// keeps its vectors of the row in registers from the sum to the store.
//
// What limits it is bytes in flight and the bubbles between phases: between the loads of a row and
// its stores lies a reduction over the row's threads, and a multiprocessor stores at a third of the
// rate at which it loads. So
//  - a block is kGroups groups of threads with rows of their own, which meet only at the block's
//    barriers: one group reduces while the other stores;
//  - each thread plays kPlay threads of the row's kMaxThreads, which halves or quarters what every
//    thread needs beside its data (addresses, counters) and leaves registers for loads in flight;
//  - rows are taken in batches of kRows with one reduction a batch;
//  - the loads of what comes kStages vectors later are issued as soon as a vector's registers are
//    free: they are under way while the batch is reduced, normalised and stored. But shuffles of
//    the reduction were seen to wait for them: where the parts are near and half of the GPU is
//    idle, loads behind the reduction (kLayout.behind) are faster.
// Before the start barrier come its put, the first attempt of its wait and all that is the rank's
// own: its partials of the first rows, residual and gamma are under way while the peers' signals
// are awaited. What needs the parameters alone comes before the launch before has ended.
//
// The order of the sums is that of a block of min(1024, hidden / 8 rounded up to warps) threads
// with a vector or two each (tokenweave_threads), whatever kGroups and kPlay: a thread keeps a sum
// for each thread that it plays, and played threads of one warp are 32 real ones.
#pragma once

#include <type_traits>

#include "cuda/kernels/divide.hpp"
#include "cuda/kernels/element.cuh"
#include "cuda/kernels/ptx/launch.cuh"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/signals.cuh"
#include "cuda/kernels/tokenweave.hpp"
#include "cuda/kernels/tokenweave_math.cuh"
#include "cuda/kernels/transport.cuh"

namespace ringfence::cuda {

/// kVectors: vectors that a played thread has of a row. kGroups, kPlay, kRows, kStages: above; a
/// batch is a whole number of rounds through the stages. kFp32Rows: gamma and beta are in fp32, and
/// read where they are used.
template <class T, class TransportT, int kVectors, TokenweaveLayout kLayout, Order kStartPut,
          Order kStartWait, bool kFp32Rows = false>
__device__ __forceinline__ void tokenweave_body(const TokenweaveArgs& args) {
  constexpr int kGroups = kLayout.groups;
  constexpr int kPlay = kLayout.play;
  constexpr int kRows = kLayout.rows;
  constexpr int kStages = kLayout.stages;
  constexpr bool kAligned = TransportT::kAligned;
  constexpr int kOwn = kPlay * kVectors;  // vectors of a row that a thread has
  constexpr int kUnits = kRows * kOwn;    // and of a batch
  static_assert(kUnits % kStages == 0, "a unit must find its stage at compile time");
  __shared__ float warp_sums[2][kGroups][kRows][kMaxWarps];
  __shared__ uint4 gamma[kFp32Rows ? 1 : kVectors * kMaxThreads];

  ptx::let_next_launch_begin();
  const int rank = args.first_rank + static_cast<int>(blockIdx.x) / args.blocks;
  const int block = static_cast<int>(blockIdx.x) % args.blocks;
  const int vectors = (args.hidden + kVector - 1) / kVector;
  const int threads = static_cast<int>(blockDim.x) / kGroups;  // of a group
  const int group = kGroups == 1 ? 0 : static_cast<int>(threadIdx.x) / threads;
  const int thread = static_cast<int>(threadIdx.x) - group * threads;
  // The loop reads its pointers from shared memory when it needs them, which keeps them out of
  // registers that the loads in flight want.
  __shared__ TokenweaveArgs::Local local;
  const OwnedRows own = owned_rows_32(args.tokens, TransportT::world_of(args.world), rank);
  const TransportT transport(args.replica, args.multicast, args.world);
  // The slots of the barriers, by the parameters' name: through a pointer to them the addresses
  // would come from memory, before the first put.
  const auto slots = [&](uint32_t* const* table, uint32_t peer) -> BarrierSlots {
    const int slot = block * args.world;
    if (table != nullptr) return {table[peer] + slot + rank, table[rank] + slot + peer};
    return {args.pad[peer] + slot + rank, args.pad[rank] + slot + peer};
  };
  const bool signals = threadIdx.x < static_cast<uint32_t>(args.world);
  BarrierSlots at{};
  if (signals && args.pad_table == nullptr) at = slots(nullptr, threadIdx.x);
  // Read early where a thread has registers to keep it in.
  std::conditional_t<(kPlay > 1), const TokenweaveArgs::Local, const TokenweaveArgs::Local&> mine =
      args.local[rank];
  ptx::wait_for_launch_before();
  if (signals && args.pad_table != nullptr) at = slots(args.pad_table, threadIdx.x);

  const int first = own.first;
  const int last = own.last;
  const int begin = first + block + group * args.blocks;  // the group's first row
  const int stride = kGroups * args.blocks;               // and from one of its rows to the next
  const int residual_row0 = args.residual_sharded ? first : 0;

  // This thread's vector number i of a row, vector i % kVectors of the played thread i / kVectors:
  // its column, whether it exists, how long it is. With a second vector there are kMaxThreads
  // played threads.
  const auto column = [&](int i) {
    return thread + i / kVectors * threads + i % kVectors * kMaxThreads;
  };
  const auto exists = [&](int i) { return column(i) < vectors; };
  const auto valid = [&](int i) {
    const int left = args.hidden - column(i) * kVector;
    return left < kVector ? left : kVector;
  };
  const auto place = [&](int row, int i) -> Place<kAligned> {
    if constexpr (kAligned) {
      return static_cast<uint32_t>(row) * vectors + column(i);
    } else {
      return static_cast<int64_t>(row) * args.hidden + column(i) * kVector;
    }
  };

  // What is loaded for a vector that does not exist stays zero, so that the arithmetic between
  // loads and stores has no branches: it adds zeros to the sums, and is not stored. Where a stage
  // serves now one and now another of a thread's vectors, it may hold the one that does exist.
  constexpr bool kZeros = TransportT::kHolds && kStages % kOwn == 0;
  typename TransportT::Fragment fragment[kStages]{};
  uint4 residual[kStages]{};
  uint4 z[kUnits];

  const auto load_residual = [&](const void* from, uint4& to, int row, int i) {
    if (row < last && exists(i)) {
      to = load_local<kAligned>(from, place(row - residual_row0, i), valid(i));
    }
  };
  const auto load_parts = [&](typename TransportT::Fragment& to, int row, int i) {
    if (row < last && exists(i)) transport.load(to, place(row, i), valid(i));
  };

  // 1. The peers have written their partials. The put is first, since the peers wait for it and it
  // publishes nothing that this launch has done.
  RemoteBarrier<kStartPut, kStartWait> start(at, rank, args.world, block, SignalKind::start_put,
                                             args.spin);
  start.put();
  if (threadIdx.x == 0) local = mine;
#pragma unroll
  for (int s = 0; s < kStages; ++s) {
    load_residual(mine.residual, residual[s], begin + s / kOwn * stride, s % kOwn);
  }
  // Only this thread writes where the own partials are, after it has read them.
#pragma unroll
  for (int s = 0; s < kStages; ++s) {
    const int row = begin + s / kOwn * stride;
    if (row < last && exists(s % kOwn)) transport.load_own(fragment[s], place(row, s % kOwn), rank);
  }
  // Gamma goes through registers, so that nobody waits for it before the barrier.
  constexpr int kGammaEach = kFp32Rows ? 1 : (kOwn + kGroups - 1) / kGroups;
  uint4 gamma_part[kGammaEach];
#pragma unroll
  for (int k = 0; k < kGammaEach && !kFp32Rows; ++k) {
    const int c = static_cast<int>(threadIdx.x + k * blockDim.x);
    const int left = args.hidden - c * kVector;
    if (c < vectors) {
      gamma_part[k] = load_local<kAligned>(mine.gamma, kAligned ? c : c * kVector,
                                           left < kVector ? left : kVector);
    }
  }
  start.wait();
#pragma unroll
  for (int k = 0; k < kGammaEach && !kFp32Rows; ++k) {
    const int c = static_cast<int>(threadIdx.x + k * blockDim.x);
    if (c < vectors) gamma[c] = gamma_part[k];
  }
  __syncthreads();
#pragma unroll
  for (int s = 0; s < kStages; ++s) {
    const int row = begin + s / kOwn * stride;
    if (row < last && exists(s % kOwn)) {
      transport.load_others(fragment[s], place(row, s % kOwn), valid(s % kOwn), rank);
    }
  }

  const float hidden_f = static_cast<float>(args.hidden);
  const float reciprocal = args.hidden_reciprocal;
  int parity = 0;
  for (int base = begin; base < last; base += kRows * stride) {
    // 2. Sum over the ranks, residual, squares. The stages are emptied together and then filled
    // together: the hardware counts the loads that are under way but cannot tell one from another,
    // so whoever waited for one after the next had been issued would wait for that as well.
    float sum[kRows * kPlay];
    const void* const residual_in = local.residual;
    const auto refill = [&](int round) {
#pragma unroll
      for (int s = 0; s < kStages; ++s) {
        const int u = round + s + kStages;
        const int row = base + u / kOwn * stride;
        load_parts(fragment[s], row, u % kOwn);
        load_residual(residual_in, residual[s], row, u % kOwn);
      }
    };
#pragma unroll
    for (int round = 0; round < kUnits; round += kStages) {
#pragma unroll
      for (int s = 0; s < kStages; ++s) {
        if (kZeros || exists((round + s) % kOwn)) {
          z[round + s] = add_rounded<T>(transport.sum(fragment[s]), residual[s]);
        } else {
          z[round + s] = {};
        }
      }
      if (!kLayout.behind || round + kStages < kUnits) refill(round);
    }
    void* const residual_out = local.residual_out;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int i = u % kOwn;
      const int row = base + u / kOwn * stride;
      float& played = sum[u / kVectors];
      if (i % kVectors == 0) played = 0.0f;
      if ((kRows == 1 || row < last) && exists(i)) {
        store_local<kAligned>(residual_out, place(row - residual_row0, i), z[u], valid(i));
      }
      played = __fadd_rn(played, sum_squares<T>(z[u]));
    }
    float total[kRows];
    groupReduceSum<kGroups, kPlay>(sum, total, warp_sums[parity][group], group, thread, threads,
                                   tokenweave_threads(args.hidden));
    parity ^= 1;
    if (kLayout.behind) refill(kUnits - kStages);
    // 3. Normalise and store on every rank. Whether there is a beta is decided once a batch.
    float scale[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float mean = divide_by_whole(total[r], hidden_f, reciprocal);
      scale[r] = rsqrtf(__fadd_rn(mean, args.eps));
    }
    const auto finish = [&](auto with_beta) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const int i = u % kOwn;
        const int row = base + u / kOwn * stride;
        if constexpr (kFp32Rows) {
          if ((kRows != 1 && row >= last) || !exists(i)) continue;
          const int first_element = column(i) * kVector;
          const auto from = [&](const void* r) {
            return static_cast<const float*>(r) + first_element;
          };
          const uint4 y = normalise_by_fp32<T, with_beta>(z[u], scale[u / kOwn], from(local.gamma),
                                                          from(local.beta), valid(i));
          transport.store(place(row, i), y, valid(i));
          continue;
        }
        uint4 beta{};
        if constexpr (with_beta) {
          if (exists(i)) {
            beta = load_local<kAligned>(local.beta, kAligned ? column(i) : column(i) * kVector,
                                        valid(i));
          }
        }
        const uint4 y = normalise<T, with_beta>(z[u], scale[u / kOwn], gamma[column(i)], beta);
        if ((kRows == 1 || row < last) && exists(i)) transport.store(place(row, i), y, valid(i));
      }
    };
    if (local.beta == nullptr) {
      finish(std::false_type{});
    } else {
      finish(std::true_type{});
    }
  }

  // 4. All ranks' rows are everywhere. Release: the block barrier orders the whole block's stores
  // before the put. Acquire: what follows on the stream may read with weak loads.
  __syncthreads();
  BarrierSlots at_end{};
  if constexpr (kPlay > 1) {
    at_end = at;
  } else if (signals) {
    uint32_t peer = threadIdx.x;
    asm volatile("" : "+r"(peer));  // read again: no registers hold them meanwhile
    at_end = args.pad_table == nullptr ? slots(nullptr, peer) : slots(args.pad_table, peer);
  }
  RemoteBarrier<Order::release, Order::acquire> end(at_end, rank, args.world, block,
                                                    SignalKind::end_put, args.spin);
  end.put();
  end.wait();
}

}  // namespace ringfence::cuda

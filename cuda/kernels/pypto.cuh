// Body of the pypto kernel, over a product (pypto_product.cuh).
//
// Roles of a block's warps:
//   copier       one thread of warp 0 feeds the ring of stages with the copy engine and runs ahead
//                over tiles, since its inputs depend on nothing
//   finishers    warps 1 to 3 do what waits for others: clear, barrier_all, signal, wait, and the
//                rows of a summed tile (add, RMSNorm), so that none of it holds up a product
//   multipliers  warps 4 to 11, two warpgroups: product and put
//   everyone     finishers and multipliers: the rows of the last tiles, when nothing is left to
//                multiply
//
// The chunks of all tiles form one sequence that goes around the blocks, so that more blocks than a
// tile has chunks are at work on the next tile meanwhile. Where two tiles may be open at once, each
// chunk is that of two tiles in turn: the weight comes from memory half as often, which is what
// limits a rank of few blocks.
//
// Synchronisation of tile i on slot s, with the blocks of a rank as one agent:
//   clear     each block clears the rows of the data tile that it will read, and its signal
//   arrive    at the rank's counter (acq_rel); the last block adds 1 (release) to the barrier slot
//             of every block of every rank: barrier_all's arrival
//   wait      each block waits for its barrier slot EQ world (acquire), clears it, and may put: the
//             finishers tell the multipliers by a barrier of the block ("open")
//   put       red.add (relaxed) of its columns into every rank's tile; the multipliers tell the
//             finishers by a barrier of the block ("put")
//   arrive    at the counter (acq_rel); the last block adds 1 (release) to every signal slot
//   wait      each block waits for its signal slot EQ world (acquire), clears it, and reads rows
// A slot a block instead of one a rank spares the wait a second hop inside the rank.
//
// Rows with owners (PyptoArgs::owned): row r of a tile is summed at rank r % world alone, and every
// rank reads it there, over the link: 1 / world of the adds and of the bytes to clear. Then a tile
// may be cleared only when all ranks have read it. A block arrives for the barrier of tile i when
// it has finished tile i - lead, so whoever has waited for that of tile i may clear what tile i -
// lead had: the ring has a group more slots than tiles are open. And what the launch before had has
// been read when all ranks have met at the beginning of this one.
//
// Pipelined, up to kPyptoLead tiles (and slots) are open at once: tile i + lead opens when tile i
// has been finished, which is also when its slot is free again. So at most `lead` tiles are between
// open and finished anywhere, and what each of them needs for itself (two barriers of the block,
// two counters of the rank) exists `lead` times. Not pipelined, lead is 1 and a product begins when
// its tile is open.
#pragma once

#include "cuda/kernels/element.cuh"
#include "cuda/kernels/ptx/bulk.cuh"
#include "cuda/kernels/ptx/memory.cuh"
#include "cuda/kernels/ptx/wgmma.cuh"
#include "cuda/kernels/pypto.hpp"
#include "cuda/kernels/pypto_product.cuh"
#include "cuda/kernels/pypto_rows.cuh"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/signals.cuh"

namespace ringfence::cuda {

/// Shared memory of a block.
template <class Product>
struct PyptoShared {
  static constexpr int kWeightBytes = Product::kChunk * kPyptoInner * 2;
  static constexpr int kXBytes = Product::kRows * kPyptoInner * 2;
  static constexpr int kStages = Product::kStages;
  static constexpr int kStashVector = kVector * 4;  // bytes of a vector in fp32

  static constexpr int kXOffset = kStages * kWeightBytes;
  static constexpr int kStagingOffset = kXOffset + kStages * kXBytes;
  static constexpr int kBarrierOffset = kStagingOffset + Product::kStagingBytes;
  // Room for a row of sums in fp32 between its two passes.
  static constexpr int kStashOffset = kBarrierOffset + (2 * kStages * 8 + 15) / 16 * 16;
  static constexpr int kStashVectors = 8192 / kVector;
  static constexpr int kBytes = kStashOffset + kStashVectors * kStashVector + 1024;  // to align
  static_assert(kXBytes % 1024 == 0, "a swizzle atom is 8 rows of 128 bytes");
  static_assert(kBytes + 512 <= 227 * 1024, "with the teams' flags and sums");
};

/// Waits until a slot of the own pad equals `expected`, then clears it. One thread.
__device__ __forceinline__ void wait_equal_and_clear(uint32_t* slot, uint32_t expected,
                                                     const SpinPlace& place,
                                                     const SpinControl& control) {
  SpinWatch watch(control);
  uint32_t value;
  while ((value = ptx::ld_acquire_sys(slot)) != expected) {
    if (watch.expired(place, value)) break;
  }
  ptx::st_relaxed_sys(slot, 0u);
}

/// kFp32Rows: gamma and beta are in fp32, and read where they are used.
template <class Product, bool kFp32Rows = false>
class Pypto {
  using Shared = PyptoShared<Product>;
  using T = __nv_bfloat16;
  static constexpr int kRows = Product::kRows;
  static constexpr int kChunk = Product::kChunk;
  using Finishers = PyptoTeam<32, 96, 2>;
  using Multipliers = PyptoTeam<128, kPyptoConsumers, kPyptoConsumerBarrier>;
  // Barriers of both teams, where one waits and the other only arrives.
  static constexpr int kHandover = Finishers::kThreads + Multipliers::kThreads;
  static constexpr int kOpenBarrier = 3;
  static constexpr int kPutBarrier = kOpenBarrier + kPyptoLead;
  static constexpr int kEveryoneBarrier = kPutBarrier + kPyptoLead;
  static_assert(kEveryoneBarrier < 16);
  using Everyone = PyptoTeam<32, kHandover, kEveryoneBarrier>;

 public:
  __device__ Pypto(const PyptoArgs& args, char* shared)
      : args_(args),
        rank_(args.first_rank + static_cast<int>(blockIdx.x) / args.blocks),
        block_(static_cast<int>(blockIdx.x) % args.blocks),
        weight_(shared),
        x_(shared + Shared::kXOffset),
        staging_(shared + Shared::kStagingOffset),
        full_(reinterpret_cast<uint64_t*>(shared + Shared::kBarrierOffset)),
        empty_(full_ + Shared::kStages),
        stash_(reinterpret_cast<float4*>(shared + Shared::kStashOffset)),
        tiles_(static_cast<int>((args.tokens + kRows - 1) / kRows)),
        parts_((args.hidden + kChunk - 1) / kChunk),
        steps_((args.inner + kPyptoInner - 1) / kPyptoInner),
        lead_(pypto_lead(args.slots, args.pipelined != 0, args.owned != 0)),
        group_(lead_ < 2 ? 1 : 2),
        tail_(tail()),
        part_of_world_((0xffffu + args.world) / args.world) {}

  __device__ void initialise() {
    if (threadIdx.x == 0) {
      for (int s = 0; s < Shared::kStages; ++s) {
        ptx::mbarrier_init(full_ + s, 1);
        ptx::mbarrier_init(empty_ + s, 2);  // one arrival for each multiplying warpgroup
      }
      ptx::mbarrier_init_fence();
      for (int p = 0; p < args_.world; ++p) {
        const int peer = args_.owned ? p : (rank_ + p) % args_.world;
        rings()[p] = static_cast<char*>(args_.data[peer]);
      }
    }
    __syncthreads();
  }

  /// One thread: the copies of all tiles and chunks, in the order in which they are multiplied.
  __device__ void produce() {
    const CUtensorMap* weight = &args_.weight[rank_];
    const CUtensorMap* x = &args_.x[rank_];
    uint32_t n = 0;
    for (int number = block_; number < tiles_ * parts_; number += args_.blocks) {
      const Part part = part_of(number);
      for (int step = 0; step < steps_; ++step, ++n) {
        const int s = static_cast<int>(n % Shared::kStages);
        if (n >= Shared::kStages) ptx::mbarrier_wait(empty_ + s, (n / Shared::kStages - 1) & 1u);
        ptx::mbarrier_arrive_expect(full_ + s, Shared::kWeightBytes + Shared::kXBytes);
        ptx::copy_box_2d(weight_ + s * Shared::kWeightBytes, weight, full_ + s, step * kPyptoInner,
                         part.chunk * kChunk);
        ptx::copy_box_2d(x_ + s * Shared::kXBytes, x, full_ + s, step * kPyptoInner,
                         part.tile * kRows);
      }
    }
  }

  /// The finishers, a group of tiles at a time: what its tiles wait for is under way together.
  __device__ void finish_tiles() {
    if (args_.owned && static_cast<int>(gridDim.x) != args_.world * args_.blocks) meet();
    open(0, lead_ < tiles_ ? lead_ : tiles_);
    for (int first = 0; first < tiles_; first += group_) {
      const int end = first + group_ < tiles_ ? first + group_ : tiles_;
      for (int tile = first; tile < end; ++tile) {
        ptx::named_barrier(kPutBarrier + tile % lead_, kHandover);
        arrive(tile, kSignal);
      }
      const int own = end < tiles_ - tail_ ? end : tiles_ - tail_;
      for (int tile = first; tile < own; ++tile) {
        finish<Finishers>(tile);
      }
      if (own > first) open(first + lead_, own + lead_ < tiles_ ? own + lead_ : tiles_);
    }
    finish_tail();
  }

  /// The multipliers.
  __device__ void multiply_tiles() {
    int number = block_;
    for (int first = 0; first < tiles_; first += group_) {
      const int end = first + group_ < tiles_ ? first + group_ : tiles_;
      uint32_t opened = 0;
      if (!args_.pipelined) wait_open(first, first, opened);
      for (; number < end * parts_; number += args_.blocks) {
        const Part part = part_of(number);
        float d[Product::kAccumulators];
        multiply(d);
        wait_open(part.tile, first, opened);
        put(d, part.tile, part.chunk);
      }
      for (int tile = first; tile < end; ++tile) {
        wait_open(tile, first, opened);  // where there was no chunk of this tile
        ptx::named_barrier_arrive(kPutBarrier + tile % lead_, kHandover);
      }
    }
    finish_tail();
  }

 private:
  static constexpr int kBarrier = 0;  // kinds of slots
  static constexpr int kSignal = 1;
  __device__ static int thread() { return Multipliers::thread(); }
  struct Part {
    int tile;
    int chunk;
  };
  /// Part `number` of the sequence of all chunks of all tiles; block number % blocks has it.
  __device__ Part part_of(int number) const {
    const int first = number / (group_ * parts_) * group_;
    const int among = tiles_ - first < group_ ? tiles_ - first : group_;
    const int within = number - first * parts_;
    return {first + within % among, within / among};
  }
  /// The last tiles, which all warps finish together when nothing is left to multiply: a group, or
  /// what the blocks take up at once, since they end at about the same time. More where a block has
  /// several rows of a tile (virtual ranks with few blocks), since its three finishing warps fall
  /// behind its products. No more than may be open at once.
  __device__ int tail() const {
    const int at_once = (args_.blocks + parts_ - 1) / parts_;
    const int end_together = at_once > group_ ? at_once : group_;
    const int rows = kRows / args_.blocks;
    const int late = rows >= 4 ? kPyptoLead : rows >= 2 ? 4 : 0;  // cuda/bench/results, 2026-12-02
    const int most = late > end_together ? late : end_together;
    const int open = most < lead_ ? most : lead_;
    return open < tiles_ ? open : tiles_;
  }
  __device__ int slot_of(int tile) const { return (args_.first_slot + tile) % args_.slots; }
  __device__ int64_t tile_elements() const { return static_cast<int64_t>(kRows) * args_.hidden; }
  __device__ int rows_of(int tile) const {
    const int64_t left = args_.tokens - static_cast<int64_t>(tile) * kRows;
    return static_cast<int>(left < kRows ? left : kRows);
  }
  __device__ char* data_row(int owner, int tile, int row) const {
    return static_cast<char*>(args_.data[owner]) +
           (slot_of(tile) * tile_elements() + static_cast<int64_t>(row) * args_.hidden) * 2;
  }
  /// Index in a pad of the barrier or signal slot of a block.
  __device__ uint32_t pad_index(int kind, int tile, int block) const {
    return static_cast<uint32_t>((kind * args_.slots + slot_of(tile)) * args_.blocks + block);
  }

  /// The rank that has the sums of a row for all ranks. 16 bits of the reciprocal are enough for so
  /// few rows.
  __device__ int owner_of(int row) const {
    static_assert(kRows <= 128 && kMaxRanks <= 8);
    return row - args_.world * static_cast<int>(static_cast<uint32_t>(row) * part_of_world_ >> 16);
  }

  /// The launch before has ended on every rank, so nobody reads what this one clears. The slot is
  /// that of tile `lead`: it is used next when tile 0 has been finished, and all have left this.
  /// Where one launch has all ranks, its beginning is that.
  __device__ void meet() {
    arrive(lead_, kBarrier);
    wait_slot<Finishers>(kBarrier, lead_);
  }

  /// Clears the slots of the tiles [first, end), meets all ranks, and lets the own multipliers put.
  __device__ void open(int first, int end) {
    const int vectors = args_.hidden / kVector;
    const int first_row = args_.owned ? rank_ + block_ * args_.world : block_;
    const int stride = args_.owned ? args_.blocks * args_.world : args_.blocks;
    for (int tile = first; tile < end; ++tile) {
      for (int row = first_row; row < rows_of(tile); row += stride) {
        char* to = data_row(rank_, tile, row);
        for (int i = Finishers::thread(); i < vectors; i += Finishers::kThreads) {
          ptx::st_weak_16(to + i * 16, uint4{0, 0, 0, 0});
        }
      }
      if (Finishers::thread() == 0) {
        ptx::st_relaxed_sys(args_.pad[rank_] + pad_index(kSignal, tile, block_), 0u);
      }
      arrive(tile, kBarrier);
    }
    for (int tile = first; tile < end; ++tile) {
      wait_slot<Finishers>(kBarrier, tile);
      ptx::named_barrier_arrive(kOpenBarrier + tile % lead_, kHandover);
    }
  }

  /// The multipliers wait for open, once a tile of the group that begins at `first`.
  __device__ void wait_open(int tile, int first, uint32_t& opened) const {
    const uint32_t bit = 1u << (tile - first);
    if ((opened & bit) == 0) ptx::named_barrier(kOpenBarrier + tile % lead_, kHandover);
    opened |= bit;
  }

  /// The finishers arrive for their block at the rank's counter; the last block of the rank adds 1
  /// to the slot of every block of every rank. Up to `lead` tiles are under way, each with counters
  /// of its own.
  __device__ void arrive(int tile, int kind) {
    Finishers::sync();
    if (Finishers::thread() == 0) {
      uint32_t* counter = args_.local[rank_].counter + kind * kPyptoLead + tile % lead_;
      const bool last =
          ptx::add_acq_rel_sys(counter, 1u) == static_cast<uint32_t>(args_.blocks) - 1;
      if (last) ptx::st_relaxed_sys(counter, 0u);
      *Finishers::flag() = last;
    }
    Finishers::sync();
    if (!*Finishers::flag()) return;
    for (int i = Finishers::thread(); i < args_.world * args_.blocks; i += Finishers::kThreads) {
      const int peer = i / args_.blocks;
      ptx::red_add_release_sys(args_.pad[peer] + pad_index(kind, tile, i % args_.blocks), 1u);
    }
  }

  template <class Team>
  __device__ void wait_slot(int kind, int tile) {
    if (Team::thread() == 0) {
      const uint32_t index = pad_index(kind, tile, block_);
      const SpinPlace place{static_cast<uint32_t>(rank_), static_cast<uint32_t>(block_),
                            SpinTimeout::kAnyPeer, index,
                            kind == kBarrier ? SignalKind::tile_barrier : SignalKind::tile_signal};
      const uint64_t begin = args_.spin.trace == nullptr ? 0 : ptx::globaltimer_ns();
      wait_equal_and_clear(args_.pad[rank_] + index, static_cast<uint32_t>(args_.world), place,
                           args_.spin);
      if (args_.spin.trace != nullptr) log(place, begin, tile < tiles_ ? tile : 0);
    }
    Team::sync();
  }

  __device__ void log(const SpinPlace& place, uint64_t begin, int tile) const {
    const uint64_t index = static_cast<uint64_t>(args_.spin.call) * args_.spin.trace_stride +
                           ((rank_ * tiles_ + tile) * args_.blocks + block_) * 2 +
                           (place.kind == SignalKind::tile_signal);
    if (index < args_.spin.trace_capacity) {
      args_.spin.trace[index] = {
          begin,      ptx::globaltimer_ns(), place.rank, place.block, place.peer, place.slot,
          place.kind, args_.spin.call};
    }
  }

  __device__ __forceinline__ void release_stage(uint32_t taken) const {
    if (thread() % 128 == 0) ptx::mbarrier_arrive(empty_ + taken % Shared::kStages);
  }

  /// One chunk, in fp32 in registers.
  __device__ __forceinline__ void multiply(float (&d)[Product::kAccumulators]) {
    const int group = thread() / 128;
    for (int step = 0; step < steps_; ++step, ++taken_) {
      const int s = static_cast<int>(taken_ % Shared::kStages);
      ptx::mbarrier_wait(full_ + s, taken_ / Shared::kStages & 1u);
      const uint32_t weight = ptx::shared_address(weight_ + s * Shared::kWeightBytes);
      const uint32_t x = ptx::shared_address(x_ + s * Shared::kXBytes);
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < kPyptoInner / 16; ++k) {
        Product::multiply(d, weight + k * 32, x + k * 32, group, step + k != 0);
      }
      ptx::wgmma_commit();
      // The products of the step before have read their stage: hand it back.
      ptx::wgmma_wait<1>();
      if (step > 0) release_stage(taken_ - 1);
    }
    ptx::wgmma_wait<0>();
    release_stage(taken_ - 1);
  }

  /// Adds the chunk into the tile of every rank, the own one included, or each row at its owner.
  /// Ranks start with different peers, so that they do not all press on one. A multiprocessor adds
  /// hundreds of times a chunk, so an add is a base from shared memory, a sum and the add itself.
  __device__ __forceinline__ void put(float (&d)[Product::kAccumulators], int tile, int chunk) {
    const int column0 = chunk * kChunk;
    const int64_t into = (slot_of(tile) * tile_elements() + column0) * 2;
    const int pitch = args_.hidden * 2;
    Product::deliver(
        d, staging_, thread(), rows_of(tile), [] { Multipliers::sync(); },
        [&](int row, int column, uint4 v) {
          if (column0 + column >= args_.hidden) return;
          const int64_t at = into + (row * pitch + column * 2);
          if (args_.owned) {
            ptx::red_add_relaxed_sys_8xbf16(rings()[owner_of(row)] + at, v);
            return;
          }
#pragma unroll
          for (int p = 0; p < kMaxRanks; ++p) {
            if (p == args_.world) break;
            ptx::red_add_relaxed_sys_8xbf16(rings()[p] + at, v);
          }
        });
  }
  /// Every rank's ring, from the own rank on, or by rank where rows have owners.
  __device__ static char** rings() {
    __shared__ char* base[kMaxRanks];
    return base;
  }

  /// The last tiles.
  __device__ void finish_tail() {
    parity_ = 0;
    for (int tile = tiles_ - tail_; tile < tiles_; ++tile) {
      finish<Everyone>(tile);
    }
  }

  /// Waits for all ranks' sums of a tile, then the block's rows of it: add, RMSNorm, store. All
  /// arithmetic in fp32, each operation rounded, nothing fused. A thread's vectors of the first
  /// pass are its vectors of the second: up to kStashVectors of a row it leaves the sums in the
  /// stash meanwhile, what is beyond it reads again. kAhead vectors are under way at once.
  template <class Team>
  __device__ void finish(int tile) {
    constexpr int kStashVectors = Shared::kStashVectors;
    constexpr int kAhead = 4;
    wait_slot<Team>(kSignal, tile);
    const PyptoArgs::Local& local = args_.local[rank_];
    const int vectors = args_.hidden / kVector;
    const float reciprocal = 1.0f / static_cast<float>(args_.hidden);
    for (int row = block_; row < rows_of(tile); row += args_.blocks) {
      const int64_t at = (static_cast<int64_t>(tile) * kRows + row) * args_.hidden * 2;
      const char* data = data_row(args_.owned ? owner_of(row) : rank_, tile, row);
      const char* residual = static_cast<const char*>(local.residual) + at;
      char* const residual_out = static_cast<char*>(local.residual_out) + at;
      float mean = 0.0f;
      float least = 0x1p127f;  // magnitude of this thread's sums
      for (int first = Team::thread(); first < vectors; first += kAhead * Team::kThreads) {
        uint4 sum[kAhead], add[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const int i = first + k * Team::kThreads;
          if (i >= vectors) continue;
          sum[k] = ptx::ld_weak_16(data + i * 16);
          add[k] = ptx::ld_weak_16(residual + i * 16);
        }
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const int i = first + k * Team::kThreads;
          if (i >= vectors) continue;
          float2 z[kVector / 2];
#pragma unroll
          for (int p = 0; p < kVector / 2; ++p) {
            z[p] = sum_of(sum[k], add[k], p);
            mean = __fadd_rn(mean, __fmul_rn(__fmul_rn(z[p].x, z[p].x), reciprocal));
            mean = __fadd_rn(mean, __fmul_rn(__fmul_rn(z[p].y, z[p].y), reciprocal));
            least = fminf(least, fminf(fabsf(z[p].x), fabsf(z[p].y)));
          }
          if (i >= kStashVectors) continue;
          stash_[i] = {z[0].x, z[0].y, z[1].x, z[1].y};
          stash_[kStashVectors + i] = {z[2].x, z[2].y, z[3].x, z[3].y};
          ptx::st_weak_16(residual_out + i * 16, packed(z));
        }
      }
      // Under way while the warps' sums are added.
      constexpr int kRowsAhead = 3;
      const int of_rows = kFp32Rows ? 0 : vectors;  // read where they are used
      uint4 gamma[kRowsAhead];
      fetch_gamma<Team>(gamma, local.gamma, Team::thread(), of_rows);
      mean = team_sum<Team>(mean, parity_);
      const float root = __fsqrt_rn(__fadd_rn(mean, args_.eps));
      const float of_root = __fdiv_rn(1.0f, root);
      const bool normal = divides_normally(least, root);
      for (int first = Team::thread(); first < vectors; first += kRowsAhead * Team::kThreads) {
#pragma unroll
        for (int k = 0; k < kRowsAhead; ++k) {
          const int i = first + k * Team::kThreads;
          if (i >= vectors) continue;
          float2 z[kVector / 2];
          if (i < kStashVectors) {
            const float4 low = stash_[i];
            const float4 high = stash_[kStashVectors + i];
            z[0] = {low.x, low.y};
            z[1] = {low.z, low.w};
            z[2] = {high.x, high.y};
            z[3] = {high.z, high.w};
          } else {
            const uint4 sum = ptx::ld_weak_16(data + i * 16);
            const uint4 add = ptx::ld_weak_16(residual + i * 16);
#pragma unroll
            for (int p = 0; p < kVector / 2; ++p) z[p] = sum_of(sum, add, p);
            ptx::st_weak_16(residual_out + i * 16, packed(z));
          }
          divide(z, root, of_root, normal);
          scale<kFp32Rows>(z, gamma[k], local, i);
          ptx::st_weak_16(static_cast<char*>(local.out) + at + i * 16, packed(z));
        }
        fetch_gamma<Team>(gamma, local.gamma, first + kRowsAhead * Team::kThreads, of_rows);
      }
    }
  }

  const PyptoArgs& args_;
  const int rank_;
  const int block_;
  char* const weight_;
  char* const x_;
  char* const staging_;
  uint64_t* const full_;
  uint64_t* const empty_;
  float4* const stash_;
  const int tiles_;
  const int parts_;
  const int steps_;
  const int lead_;
  const int group_;  // tiles whose chunks alternate
  const int tail_;
  const uint32_t part_of_world_;  // 2^16 / world, rounded up
  uint32_t taken_ = 0;            // stages consumed so far
  int parity_ = 0;
};

}  // namespace ringfence::cuda

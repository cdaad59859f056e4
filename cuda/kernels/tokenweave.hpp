// The tokenweave kernel: reduce-scatter + residual add + RMSNorm + all-gather in one launch, in
// place in a symmetric buffer that holds each rank's partial on entry and out on exit.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/kernels/limits.hpp"
#include "cuda/kernels/spin.hpp"

namespace ringfence::cuda {

/// One launch, for one rank (its own stream) or for `ranks` virtual ranks of one GPU. Addresses are
/// valid on the launching device. Rows are tokens, contiguous, `hidden` elements each.
struct TokenweaveArgs {
  void* replica[kMaxRanks];    // [tokens, hidden] of every rank
  void* multicast;             // the multicast address of the same buffer (multimem), else null
  uint32_t* pad[kMaxRanks];    // every rank's signal pad, blocks * world slots used, all zero
  uint32_t* const* pad_table;  // if not null, used in place of `pad` (device memory)
  struct Local {
    const void* residual;  // [tokens, hidden], or the own rows only (residual_sharded)
    void* residual_out;    // likewise; may be the same memory
    const void* gamma;     // [hidden]; fp32 for the kernels of TokenweaveShape::fp32_rows
    const void* beta;      // [hidden] or null; likewise
  } local[kMaxRanks];
  int64_t tokens;
  int hidden;
  int world;
  float eps;
  float hidden_reciprocal;  // 1.0f / hidden
  int first_rank;           // of this launch
  int blocks;               // a rank
  int residual_sharded;     // residual pointers are at the rank's first own row
  SpinControl spin;
};

/// How many rows a block has, and from how far away their parts come, which decides how its threads
/// are best laid out.
enum class RowsABlock {
  few,   // 1 at most
  some,  // more
  near,  // more, of ranks that share a GPU and leave half of it or more to others
};
inline constexpr RowsABlock kAllRowsABlock[] = {RowsABlock::few, RowsABlock::some,
                                                RowsABlock::near};

struct TokenweaveShape {
  DataType dtype = DataType::bf16;
  Transport transport = Transport::peer;
  StartOrder start = StartOrder::relaxed;
  bool aligned = true;                 // hidden % 8 == 0 and every pointer on 16 bytes
  RowsABlock rows = RowsABlock::some;  // launch_tokenweave sets it
  bool fp32_rows = false;              // gamma and beta are in fp32, whatever the dtype
};

/// Rank r owns token rows [first, first + count): r * ceil(tokens / world) on, cut at tokens.
struct RowRange {
  int64_t first;
  int64_t count;
};
constexpr RowRange owned_rows(int64_t tokens, int world, int rank) {
  const int64_t each = (tokens + world - 1) / world;
  const int64_t first = each * rank < tokens ? each * rank : tokens;
  const int64_t last = first + each < tokens ? first + each : tokens;
  return {first, last - first};
}

/// The same in 32 bits, for kernels: the host refuses more rows, and a division of 64 bits takes
/// hundreds of cycles before anything has begun.
struct OwnedRows {
  int first;
  int last;  // one past
};
constexpr OwnedRows owned_rows_32(int64_t tokens, int world, int rank) {
  const uint32_t all = static_cast<uint32_t>(tokens);
  const uint32_t ranks = static_cast<uint32_t>(world);
  const uint32_t each = (all + ranks - 1) / ranks;
  const uint32_t first = each * static_cast<uint32_t>(rank);
  const uint32_t last = first + each;
  return {static_cast<int>(first < all ? first : all), static_cast<int>(last < all ? last : all)};
}

/// For a launch of `ranks` ranks. With 4 ranks and more than 4 rows a block the usual layout was
/// faster in half of the cases; over links the layouts for `near` were not measured.
constexpr RowsABlock rows_a_block(int64_t tokens, int world, int blocks, int ranks) {
  const int64_t each = (owned_rows(tokens, world, 0).count + blocks - 1) / blocks;
  if (each <= 1) return RowsABlock::few;
  const bool half = ranks > 1 && blocks * ranks <= 64;
  return half && (world == 2 || each <= 4) ? RowsABlock::near : RowsABlock::some;
}

/// Threads a row, which fix the order of its sums: min(1024, hidden / 8 rounded up to whole warps).
/// A launch has blocks of tokenweave_block threads, which play these.
constexpr int tokenweave_threads(int hidden) {
  const int vectors = (hidden + 7) / 8;
  const int rounded = (vectors + 31) / 32 * 32;
  return rounded < kMaxThreads ? rounded : kMaxThreads;
}

/// How a kernel lays a row out over a block's threads (tokenweave.cuh says what for).
struct TokenweaveLayout {
  int groups;   // of threads, each with rows of its own
  int play;     // threads of a row that one thread plays
  int rows;     // a batch
  int stages;   // vectors whose loads are in flight
  bool behind;  // the next batch's loads are issued behind the reduction, not before
  bool operator==(const TokenweaveLayout&) const = default;
};

/// Where another layout than the usual one was faster: medians on H200s, hidden 8192, bf16, virtual
/// ranks, each in one run (cuda/bench/results). The sums are the same bits in every layout.
struct MeasuredLayout {
  int world;
  RowsABlock rows;
  TokenweaveLayout layout;
};
inline constexpr MeasuredLayout kMeasuredLayouts[] = {
    {2, RowsABlock::few, {1, 2, 1, 2, false}},  // T 64, 32 blocks: 4.58 us, usual 4.94
    {2, RowsABlock::near, {1, 2, 2, 4, true}},  // 8 blocks, T 256: 20.8, 22.3; T 1024: 74.8, 82.4
    {4, RowsABlock::near, {1, 2, 1, 2, true}},  // 8 blocks, T 64: 7.64, 7.78; T 256: 18.9, 19.8
};

/// The layout that each kernel is compiled with. A thread has 65536 / (block's threads) registers;
/// a stage takes 4 for each rank's part and 4 for the residual, a vector of a batch 4 more. These
/// are what fits without spilling (checked in tests/cuda from ptxas' log) and what measured best.
constexpr TokenweaveLayout tokenweave_layout(const TokenweaveShape& shape, int world, int hidden) {
  const bool two = hidden > kMaxThreads * 8;  // vectors of a played thread
  if (!shape.aligned || shape.transport == Transport::push) return {1, 1, 1, 1, false};
  if (shape.transport == Transport::multimem)
    return two ? TokenweaveLayout{1, 1, 1, 2, false} : TokenweaveLayout{1, 2, 2, 4, false};
  if (two) return {1, 1, 1, world <= 2 ? 2 : 1, false};
  for (const MeasuredLayout& m : kMeasuredLayouts) {
    // Those with rows in fp32 are compiled for the usual number of rows a block alone.
    if (m.world == world && m.rows == shape.rows && !shape.fp32_rows) return m.layout;
  }
  if (world <= 2) return {1, 2, 2, 4, false};
  return world == 4 ? TokenweaveLayout{1, 2, 1, 2, false} : TokenweaveLayout{1, 1, 1, 1, false};
}

/// Threads a block of the kernel for a shape.
constexpr int tokenweave_block(const TokenweaveLayout& layout, int hidden) {
  const int warps = tokenweave_threads(hidden) / 32;
  return layout.groups * ((warps + layout.play - 1) / layout.play) * 32;
}

/// The kernel for a shape, for occupancy queries and attributes; null if there is none.
const void* tokenweave_kernel(const TokenweaveShape& shape, int world, int hidden);

/// Enqueues `ranks` ranks from args.first_rank on. The caller has checked the arguments.
cudaError_t launch_tokenweave(const TokenweaveArgs& args, TokenweaveShape shape, int ranks,
                              Launch how, cudaStream_t stream);

/// The attribute of a launch.
inline cudaLaunchAttribute attribute_of(Launch how) {
  cudaLaunchAttribute a{};
  if (how == Launch::cooperative) {
    a.id = cudaLaunchAttributeCooperative;
    a.val.cooperative = 1;
  } else {
    a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    a.val.programmaticStreamSerializationAllowed = 1;
  }
  return a;
}

}  // namespace ringfence::cuda

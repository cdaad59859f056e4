// The pypto kernel: the whole operator by tiles of token rows. Matmul of a tile on the tensor
// cores, put with atomic add into every rank's tile, signal, wait, add + RMSNorm; optionally with
// the matmul of tile i+1 before the wait of tile i, so that communication hides behind it. bf16,
// sm_90a.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/kernels/limits.hpp"
#include "cuda/kernels/spin.hpp"

namespace ringfence::cuda {

/// Columns of a tile that a block multiplies at once (rows of weight).
constexpr int pypto_chunk(int tile_rows) { return tile_rows == 128 ? 256 : 128; }
/// Inner elements a pipeline stage: one 128-byte swizzle row.
inline constexpr int kPyptoInner = 64;
/// 1 producer warpgroup (one thread of it copies) and 2 that multiply.
inline constexpr int kPyptoThreads = 384;

/// One launch, for one rank or for `ranks` virtual ranks of one GPU.
struct PyptoArgs {
  CUtensorMap weight[kMaxRanks];  // [hidden, inner] of each rank, box pypto_chunk x kPyptoInner
  CUtensorMap x[kMaxRanks];  // [tokens, inner] of each rank, box tile_rows / cluster x kPyptoInner
  void* data[kMaxRanks];     // every rank's ring of data tiles: [slots][tile_rows, hidden]
  uint32_t* pad[kMaxRanks];  // every rank's ring of slots: [2][slots][blocks]: barrier, signal
  struct Local {
    const void* residual;  // [tokens, hidden]
    void* residual_out;    // [tokens, hidden]; may be residual
    void* out;             // [tokens, hidden]
    const void* gamma;     // [hidden]
    const void* beta;      // [hidden] or null
    uint32_t* counter;     // 2 words, zero before and after: arrivals of the rank's own blocks
  } local[kMaxRanks];
  int64_t tokens;
  int inner;   // of one rank, % 8 == 0
  int hidden;  // % 8 == 0, <= kMaxHidden
  int world;
  float eps;
  int first_rank;  // of this launch
  int blocks;      // a rank
  int slots;       // of the rings; >= 2 if pipelined
  int first_slot;  // the rings go on from call to call
  int pipelined;
  SpinControl spin;
};

/// Words of a rank's pad that a launch uses.
constexpr int64_t pypto_pad_words(int slots, int blocks) { return int64_t{2} * slots * blocks; }

/// Tile rows the kernel is compiled for.
constexpr bool pypto_tile_rows_supported(int rows) {
  return rows == 8 || rows == 64 || rows == 128;
}

/// Blocks of a cluster: 2 share the rows of x where there are enough rows to split and an even
/// number of blocks a rank, else 1.
constexpr int pypto_cluster(int tile_rows, int blocks) {
  return tile_rows > 8 && blocks % 2 == 0 ? 2 : 1;
}

const void* pypto_kernel(int tile_rows, int cluster);
int pypto_shared_bytes(int tile_rows);

/// Enqueues `ranks` ranks from args.first_rank on. The caller has checked the arguments.
cudaError_t launch_pypto(const PyptoArgs& args, int tile_rows, int cluster, int ranks,
                         bool cooperative, cudaStream_t stream);

}  // namespace ringfence::cuda

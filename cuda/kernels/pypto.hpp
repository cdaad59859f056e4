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

/// Columns of a tile that a block multiplies at once (rows of weight), and where that would leave
/// blocks of a rank without any part of so many tokens, half as many.
constexpr int pypto_whole_chunk(int tile_rows) { return tile_rows == 128 ? 256 : 128; }
constexpr int pypto_chunk(int tile_rows, int hidden, int blocks, int64_t tokens) {
  const int whole = pypto_whole_chunk(tile_rows);
  const int64_t tiles = (tokens + tile_rows - 1) / tile_rows;
  return tiles * ((hidden + whole - 1) / whole) < blocks ? whole / 2 : whole;
}
/// Inner elements a pipeline stage: one 128-byte swizzle row.
inline constexpr int kPyptoInner = 64;
/// A warpgroup that copies, signals and finishes, and two that multiply.
inline constexpr int kPyptoThreads = 384;
/// Tiles that may be between their barrier and their end at once. A block has 16 barriers, two of
/// them for each such tile.
inline constexpr int kPyptoLead = 6;

/// Tiles open at once, on so many slots; with owners, one group of tiles (two, or one) fewer than
/// there are slots.
constexpr int pypto_lead(int slots, bool pipelined, bool owned) {
  if (!pipelined) return 1;
  const int most = !owned ? slots : slots < 4 ? 1 : slots - 2;
  return most < kPyptoLead ? most : kPyptoLead;
}

/// One launch, for one rank or for `ranks` virtual ranks of one GPU.
struct PyptoArgs {
  CUtensorMap weight[kMaxRanks];  // [hidden, inner] of each rank, box chunk x kPyptoInner
  CUtensorMap x[kMaxRanks];       // [tokens, inner] of each rank, box tile_rows x kPyptoInner
  void* data[kMaxRanks];          // every rank's ring of data tiles: [slots][tile_rows, hidden]
  uint32_t* pad[kMaxRanks];       // every rank's ring of slots: [2][slots][blocks]: barrier, signal
  struct Local {
    const void* residual;  // [tokens, hidden]
    void* residual_out;    // [tokens, hidden]; may be residual
    void* out;             // [tokens, hidden]
    const void* gamma;     // [hidden]; fp32 for the kernels of PyptoShape::fp32_rows
    const void* beta;      // [hidden] or null; likewise
    uint32_t* counter;     // 2 * kPyptoLead words, zero before and after: arrivals of own blocks
  } local[kMaxRanks];
  int64_t tokens;
  int inner;   // of one rank, % 8 == 0
  int hidden;  // % 8 == 0, <= kMaxHidden
  int world;
  float eps;
  int first_rank;  // of this launch
  int blocks;      // a rank
  int slots;       // of the rings; >= 2 if pipelined or owned
  int first_slot;  // the rings go on from call to call
  int pipelined;
  int owned;  // a row is summed at its owner alone, rank row % world, where all ranks read it
  SpinControl spin;
};

/// Words of a rank's pad that a launch uses.
constexpr int64_t pypto_pad_words(int slots, int blocks) { return int64_t{2} * slots * blocks; }

/// Tile rows the kernel is compiled for.
constexpr bool pypto_tile_rows_supported(int rows) {
  return rows == 8 || rows == 64 || rows == 128;
}

/// Which kernel.
struct PyptoShape {
  int tile_rows;
  int chunk;
  bool fp32_rows = false;  // gamma and beta are in fp32
  bool operator==(const PyptoShape&) const = default;
};

/// Null where there is none.
const void* pypto_kernel(const PyptoShape& shape);
int pypto_shared_bytes(const PyptoShape& shape);

/// Enqueues `ranks` ranks from args.first_rank on. The caller has checked the arguments.
cudaError_t launch_pypto(const PyptoArgs& args, const PyptoShape& shape, int ranks,
                         bool cooperative, cudaStream_t stream);

}  // namespace ringfence::cuda

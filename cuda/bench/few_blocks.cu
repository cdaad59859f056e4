// The fastest that few multiprocessors move what tokenweave moves: of each row two ranks' parts and
// the residual in, two rows and the residual out, in 16-byte accesses of the same kinds, but no
// barriers, no reductions over rows and no order between rows. A kernel of as many blocks that also
// does its work cannot take less than the least of these. Two virtual ranks on one GPU.
//
//   nvcc -std=c++20 -O3 -arch=sm_90 -I. -o few_blocks cuda/bench/few_blocks.cu && ./few_blocks
//   [TOKENS [BLOCKS...]]       (8192 tokens and 16 blocks a rank; rows of 8192 bf16)
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuda/bench/bandwidth.hpp"
#include "cuda/kernels/element.cuh"
#include "cuda/kernels/ptx/bulk.cuh"
#include "cuda/kernels/ptx/memory.cuh"

namespace {

using namespace ringfence::cuda;

constexpr int kHidden = 8192;
constexpr int kRowVectors = kHidden / kVector;
constexpr int kRanks = 2;

void check(cudaError_t e, const char* what) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "few_blocks: %s: %s\n", what, cudaGetErrorString(e));
  std::exit(1);
}

struct Rows {
  char* replica[kRanks];   // [tokens, hidden]
  char* residual[kRanks];  // the same; only the own rows are touched
  int each;                // rows that a rank owns
  int blocks;              // a rank
};

/// The rows of a block: `first`, `first + blocks`, ... of the rank's own, `count` of them.
struct Share {
  int rank;
  int first;
  int count;
};
__device__ Share share_of(const Rows& rows) {
  const int rank = static_cast<int>(blockIdx.x) / rows.blocks;
  const int block = static_cast<int>(blockIdx.x) % rows.blocks;
  const int count = block < rows.each ? (rows.each - block - 1) / rows.blocks + 1 : 0;
  return {rank, rank * rows.each + block, count};
}

/// Half of a sum of two vectors: the numbers stay as large as they are, call after call.
__device__ __forceinline__ uint4 mean(uint4 a, uint4 b) {
  constexpr uint32_t kHalves = 0x3f003f00u;
  uint4 v;
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    pair(v, i) =
        multiply_pair<__nv_bfloat16>(add_pair<__nv_bfloat16>(pair(a, i), pair(b, i)), kHalves);
  }
  return v;
}

/// By loads and stores of the threads, kAhead vectors of each tensor in flight a thread. kSum: with
/// the additions, else a copy of the three.
template <int kThreads, int kAhead, bool kSum>
__global__ void __launch_bounds__(kThreads, 1) by_threads(const __grid_constant__ Rows rows) {
  const Share share = share_of(rows);
  const uint32_t vectors = static_cast<uint32_t>(share.count) * kRowVectors;
  const auto at = [&](uint32_t i) {
    const uint32_t row = share.first + i / kRowVectors * rows.blocks;
    return (static_cast<uint64_t>(row) * kRowVectors + i % kRowVectors) * 16;
  };
  char* const residual = share.rank == 0 ? rows.residual[0] : rows.residual[1];
  for (uint32_t base = threadIdx.x; base < vectors; base += kThreads * kAhead) {
    uint4 part[kRanks][kAhead];
    uint4 old[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const uint32_t i = base + k * kThreads;
      if (i >= vectors) continue;
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        part[r][k] = ptx::ld_relaxed_sys_16(rows.replica[r] + at(i));
      }
      old[k] = ptx::ld_weak_16(residual + at(i));
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const uint32_t i = base + k * kThreads;
      if (i >= vectors) continue;
      if constexpr (kSum) {
        old[k] = mean(mean(part[0][k], part[1][k]), old[k]);
        part[0][k] = part[1][k] = mean(old[k], part[0][k]);
      }
      ptx::st_weak_16(residual + at(i), old[k]);
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        ptx::st_relaxed_sys_16(rows.replica[r] + at(i), part[r][k]);
      }
    }
  }
}

__device__ void bulk_in(void* shared, const void* from, uint32_t bytes, uint64_t* full) {
  ptx::mbarrier_arrive_expect(full, bytes);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(ptx::shared_address(shared)),
      "l"(from), "r"(bytes), "r"(ptx::shared_address(full))
      : "memory");
}
__device__ void bulk_out(void* to, const void* shared, uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(ptx::shared_address(shared)), "r"(bytes)
      : "memory");
}

/// By bulk copies of one thread through kStages places of shared memory: no arithmetic. A place is
/// filled again when kLag copies out of other places have begun.
template <int kStages, int kBytes, int kLag>
__global__ void __launch_bounds__(32, 1) by_bulk_copies(const __grid_constant__ Rows rows) {
  extern __shared__ __align__(128) char places[];
  __shared__ uint64_t full[kStages];
  if (threadIdx.x != 0) return;
  constexpr int kPieces = kHidden * 2 / kBytes;
  const Share share = share_of(rows);
  for (int s = 0; s < kStages; ++s) ptx::mbarrier_init(full + s, 1);
  ptx::mbarrier_init_fence();
  const int count = share.count * kPieces * (kRanks + 1);
  // A row's pieces, each of one tensor after the other.
  const auto address = [&](int n) {
    const int tensor = n % (kRanks + 1);
    const int piece = n / (kRanks + 1) % kPieces;
    const uint64_t row = share.first + n / (kRanks + 1) / kPieces * rows.blocks;
    char* const base = tensor < kRanks ? rows.replica[tensor] : rows.residual[share.rank];
    return base + row * kHidden * 2 + static_cast<uint64_t>(piece) * kBytes;
  };
  for (int n = 0; n < kStages && n < count; ++n) {
    bulk_in(places + n * kBytes, address(n), kBytes, full + n);
  }
  for (int n = 0; n < count; ++n) {
    const int s = n % kStages;
    ptx::mbarrier_wait(full + s, n / kStages & 1);
    bulk_out(address(n), places + s * kBytes, kBytes);
    const int next = n - kLag + kStages;
    if (n < kLag || next >= count) continue;
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLag) : "memory");
    const int free = next % kStages;
    bulk_in(places + free * kBytes, address(next), kBytes, full + free);
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/// Median of 9 launches, in microseconds.
template <class F>
double timed(F&& launch) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> ms;
  for (int i = 0; i < 11; ++i) {
    check(cudaEventRecord(begin), "record");
    launch();
    check(cudaGetLastError(), "launch");
    check(cudaEventRecord(end), "record");
    check(cudaEventSynchronize(end), "run");
    float t = 0;
    check(cudaEventElapsedTime(&t, begin, end), "time");
    if (i > 1) ms.push_back(t);
  }
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2] * 1e3;
}

double report(const char* what, int threads, int ahead, const Rows& rows, double us) {
  const double bytes = 2.0 * (kRanks + 1) * kRanks * rows.each * kHidden * 2;
  std::printf("%3d blocks  %-20s %5d %6d  %8.1f  %7.0f  %6.1f\n", rows.blocks, what, threads, ahead,
              us, bytes / us / 1e3, bytes / us / 1e3 / (kRanks * rows.blocks));
  return us;
}

template <int kThreads, int kAhead>
double measure_threads(const Rows& rows) {
  const int grid = kRanks * rows.blocks;
  const double copy =
      report("copy, by threads", kThreads, kAhead, rows,
             timed([&] { by_threads<kThreads, kAhead, false><<<grid, kThreads>>>(rows); }));
  const double sum =
      report("sum, by threads", kThreads, kAhead, rows,
             timed([&] { by_threads<kThreads, kAhead, true><<<grid, kThreads>>>(rows); }));
  return std::min(copy, sum);
}

template <int kStages, int kBytes, int kLag>
double measure_bulk(const Rows& rows) {
  const auto kernel = by_bulk_copies<kStages, kBytes, kLag>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kStages * kBytes),
        "shared memory");
  return report("copy, bulk copies", kBytes, kStages, rows,
                timed([&] { kernel<<<kRanks * rows.blocks, 32, kStages * kBytes>>>(rows); }));
}

}  // namespace

int main(int argc, char** argv) {
  const int tokens = argc > 1 ? std::atoi(argv[1]) : 8192;
  std::vector<int> blocks;
  for (int i = 2; i < argc; ++i) blocks.push_back(std::atoi(argv[i]));
  if (blocks.empty()) blocks = {16};
  if (tokens < 2 || tokens > 16384 || tokens % kRanks != 0 ||
      *std::min_element(blocks.begin(), blocks.end()) < 1) {
    std::fprintf(stderr, "usage: few_blocks [TOKENS [BLOCKS...]], an even number of tokens\n");
    return 2;
  }
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, 0), "properties");
  std::printf("# %s, %d multiprocessors; %d tokens of %d bf16, %d virtual ranks\n", p.name,
              p.multiProcessorCount, tokens, kHidden, kRanks);
  std::printf(
      "# blocks a rank; threads or bytes a copy; vectors or copies ahead; us; GB/s read and "
      "written, in all and a multiprocessor\n");
  Rows rows{};
  rows.each = tokens / kRanks;
  const size_t elements = static_cast<size_t>(tokens) * kHidden;
  for (int r = 0; r < kRanks; ++r) {
    check(cudaMalloc(&rows.replica[r], elements * 2), "memory");
    check(cudaMalloc(&rows.residual[r], elements * 2), "memory");
    check(launch_fill(rows.replica[r], elements, true, 1 + r, nullptr), "fill");
    check(launch_fill(rows.residual[r], elements, true, 11 + r, nullptr), "fill");
  }
  for (const int b : blocks) {
    rows.blocks = b;
    double least = measure_threads<256, 2>(rows);
    least = std::min(least, measure_threads<256, 4>(rows));
    least = std::min(least, measure_threads<256, 8>(rows));
    least = std::min(least, measure_threads<512, 1>(rows));
    least = std::min(least, measure_threads<512, 2>(rows));
    least = std::min(least, measure_threads<512, 4>(rows));
    least = std::min(least, measure_threads<768, 1>(rows));
    least = std::min(least, measure_threads<768, 2>(rows));
    least = std::min(least, measure_threads<1024, 1>(rows));
    least = std::min(least, measure_threads<1024, 2>(rows));
    least = std::min(least, measure_bulk<52, 4096, 8>(rows));
    least = std::min(least, measure_bulk<26, 8192, 4>(rows));
    least = std::min(least, measure_bulk<26, 8192, 13>(rows));
    least = std::min(least, measure_bulk<12, 16384, 6>(rows));
    least = std::min(least, measure_bulk<13, 16384, 2>(rows));
    least = std::min(least, measure_bulk<13, 16384, 4>(rows));
    least = std::min(least, measure_bulk<13, 16384, 6>(rows));
    least = std::min(least, measure_bulk<13, 16384, 9>(rows));
    std::printf("# %d blocks a rank, the least: %.1f us\n", b, least);
  }
  return 0;
}

#include "cuda/host/grid.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "cuda/host/check.hpp"
#include "cuda/host/error.hpp"

namespace ringfence::cuda {

void require_resident(int device, const void* kernel, int threads, int shared_bytes, int blocks,
                      int ranks) {
  const DeviceScope scope(device);
  int per_multiprocessor = 0;
  if (shared_bytes > 0) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
          "shared memory of the kernel");
  }
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel, threads,
                                                      static_cast<size_t>(shared_bytes)),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  int multiprocessors = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  const int room = per_multiprocessor * multiprocessors;
  if (static_cast<long>(blocks) * ranks > room) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} blocks a rank x {} ranks cannot all be resident on device {}, which "
                    "has room for {}: use --blocks {} or fewer",
                    blocks, ranks, device, room, room / ranks));
  }
}

}  // namespace ringfence::cuda

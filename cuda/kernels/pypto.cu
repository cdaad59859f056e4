// The pypto kernels and their launcher.
#include "cuda/kernels/pypto.hpp"

#include <type_traits>

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RINGFENCE_WGMMA 1
#include "cuda/kernels/pypto.cuh"
#endif

namespace ringfence::cuda {
namespace {

#ifdef RINGFENCE_WGMMA
template <int kRows>
using ProductOf = std::conditional_t<kRows == 128, WideProduct, NarrowProduct<kRows>>;
#endif

template <int kRows, int kCluster>
__global__ void __launch_bounds__(kPyptoThreads, 1) pypto(const __grid_constant__ PyptoArgs args) {
#ifdef RINGFENCE_WGMMA
  extern __shared__ char dynamic[];
  char* shared = dynamic + (1024 - __cvta_generic_to_shared(dynamic) % 1024) % 1024;
  Pypto<ProductOf<kRows>, kCluster> kernel(args, shared);
  kernel.initialise();
  // The copying warpgroup hands registers to the others, whose accumulators fill theirs.
  static_assert(128 * 40 + kPyptoConsumers * 232 == kPyptoThreads * 168);
  if (threadIdx.x < 128) {
    ptx::give_registers<40>();
    if (threadIdx.x == 0) kernel.produce();
  } else {
    ptx::take_registers<232>();
    kernel.consume();
  }
  __syncwarp();
  kernel.end();
#endif
}

template <int kRows>
constexpr int shared_bytes() {
#ifdef RINGFENCE_WGMMA
  return PyptoShared<ProductOf<kRows>>::kBytes;
#else
  return 0;
#endif
}

}  // namespace

const void* pypto_kernel(int tile_rows, int cluster) {
  const bool pair = cluster == 2;
  switch (tile_rows) {
    case 8:
      return pair ? nullptr : reinterpret_cast<const void*>(pypto<8, 1>);
    case 64:
      return pair ? reinterpret_cast<const void*>(pypto<64, 2>)
                  : reinterpret_cast<const void*>(pypto<64, 1>);
    case 128:
      return pair ? reinterpret_cast<const void*>(pypto<128, 2>)
                  : reinterpret_cast<const void*>(pypto<128, 1>);
    default:
      return nullptr;
  }
}

int pypto_shared_bytes(int tile_rows) {
  switch (tile_rows) {
    case 8:
      return shared_bytes<8>();
    case 64:
      return shared_bytes<64>();
    case 128:
      return shared_bytes<128>();
    default:
      return 0;
  }
}

cudaError_t launch_pypto(const PyptoArgs& args, int tile_rows, int cluster, int ranks,
                         bool cooperative, cudaStream_t stream) {
  const void* kernel = pypto_kernel(tile_rows, cluster);
  if (kernel == nullptr) return cudaErrorNotSupported;
  const int bytes = pypto_shared_bytes(tile_rows);
  const cudaError_t raised =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (raised != cudaSuccess) return raised;
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = static_cast<unsigned>(cluster);
    attributes[count].val.clusterDim.y = 1;
    attributes[count].val.clusterDim.z = 1;
    ++count;
  }
  if (cooperative) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count].val.cooperative = 1;
    ++count;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(args.blocks * ranks));
  config.blockDim = dim3(kPyptoThreads);
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  void* params[] = {const_cast<PyptoArgs*>(&args)};
  return cudaLaunchKernelExC(&config, kernel, params);
}

}  // namespace ringfence::cuda

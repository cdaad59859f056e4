// The pypto kernels and their launcher.
#include "cuda/kernels/pypto.hpp"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RINGFENCE_WGMMA 1
#include "cuda/kernels/pypto.cuh"
#endif

namespace ringfence::cuda {
namespace {

template <int kRows>
__global__ void __launch_bounds__(kPyptoThreads, 1)
    pypto(const __grid_constant__ PyptoArgs args) {
#ifdef RINGFENCE_WGMMA
  extern __shared__ char dynamic[];
  char* shared = dynamic + (1024 - __cvta_generic_to_shared(dynamic) % 1024) % 1024;
  Pypto<kRows> kernel(args, shared);
  kernel.initialise();
  if (threadIdx.x < 128) {
    if (threadIdx.x == 0) kernel.produce();
  } else {
    kernel.consume();
  }
#endif
}

template <int kRows>
constexpr int shared_bytes() {
#ifdef RINGFENCE_WGMMA
  return PyptoShared<kRows>::kBytes;
#else
  return 0;
#endif
}

}  // namespace

const void* pypto_kernel(int tile_rows) {
  switch (tile_rows) {
    case 8:
      return reinterpret_cast<const void*>(pypto<8>);
    case 64:
      return reinterpret_cast<const void*>(pypto<64>);
    case 128:
      return reinterpret_cast<const void*>(pypto<128>);
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

cudaError_t launch_pypto(const PyptoArgs& args, int tile_rows, int ranks, bool cooperative,
                         cudaStream_t stream) {
  const void* kernel = pypto_kernel(tile_rows);
  if (kernel == nullptr) return cudaErrorNotSupported;
  const int bytes = pypto_shared_bytes(tile_rows);
  const cudaError_t raised =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (raised != cudaSuccess) return raised;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(args.blocks * ranks));
  config.blockDim = dim3(kPyptoThreads);
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = cooperative ? 1u : 0u;
  void* params[] = {const_cast<PyptoArgs*>(&args)};
  return cudaLaunchKernelExC(&config, kernel, params);
}

}  // namespace ringfence::cuda

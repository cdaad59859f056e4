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
template <int kRows, int kChunk>
struct ProductFor : std::type_identity<NarrowProduct<kRows, kChunk>> {};
template <int kChunk>
struct ProductFor<128, kChunk> : std::type_identity<WideProduct<kChunk>> {};
template <int kRows, int kChunk>
using ProductOf = typename ProductFor<kRows, kChunk>::type;
#endif

#ifdef RINGFENCE_WGMMA
template <int kRows, int kChunk, bool kFp32Rows>
__device__ __forceinline__ void pypto_body(const PyptoArgs& args) {
  extern __shared__ char dynamic[];
  char* shared = dynamic + (1024 - __cvta_generic_to_shared(dynamic) % 1024) % 1024;
  Pypto<ProductOf<kRows, kChunk>, kFp32Rows> kernel(args, shared);
  kernel.initialise();
  // The first warpgroup hands registers to the others, whose accumulators fill theirs.
  static_assert(128 * 104 + kPyptoConsumers * 200 == kPyptoThreads * 168);
  if (threadIdx.x < 128) {
    ptx::give_registers<104>();
    if (threadIdx.x == 0) kernel.produce();
    if (threadIdx.x >= 32) kernel.finish_tiles();
  } else {
    ptx::take_registers<200>();
    kernel.multiply_tiles();
  }
}
#endif

template <int kRows, int kChunk>
__global__ void __launch_bounds__(kPyptoThreads, 1) pypto(const __grid_constant__ PyptoArgs args) {
#ifdef RINGFENCE_WGMMA
  pypto_body<kRows, kChunk, false>(args);
#endif
}

/// With a gamma and a beta in fp32.
template <int kRows, int kChunk>
__global__ void __launch_bounds__(kPyptoThreads, 1)
    pypto_fp32(const __grid_constant__ PyptoArgs args) {
#ifdef RINGFENCE_WGMMA
  pypto_body<kRows, kChunk, true>(args);
#endif
}

template <int kRows, int kChunk>
constexpr int shared_bytes() {
#ifdef RINGFENCE_WGMMA
  return PyptoShared<ProductOf<kRows, kChunk>>::kBytes;
#else
  return 0;
#endif
}

struct Kernel {
  PyptoShape shape;
  const void* kernel;
  int shared_bytes;
};

template <int kRows, int kChunk>
Kernel entry(bool fp32_rows) {
  return {{kRows, kChunk, fp32_rows},
          fp32_rows ? reinterpret_cast<const void*>(pypto_fp32<kRows, kChunk>)
                    : reinterpret_cast<const void*>(pypto<kRows, kChunk>),
          shared_bytes<kRows, kChunk>()};
}

Kernel find(const PyptoShape& shape) {
  const bool fp32 = shape.fp32_rows;
  const Kernel all[] = {
      entry<8, 128>(fp32), entry<8, 64>(fp32),    entry<64, 128>(fp32),
      entry<64, 64>(fp32), entry<128, 256>(fp32), entry<128, 128>(fp32),
  };
  for (const Kernel& k : all) {
    if (k.shape == shape) return k;
  }
  return {shape, nullptr, 0};
}

}  // namespace

const void* pypto_kernel(const PyptoShape& shape) { return find(shape).kernel; }

int pypto_shared_bytes(const PyptoShape& shape) { return find(shape).shared_bytes; }

cudaError_t launch_pypto(const PyptoArgs& args, const PyptoShape& shape, int ranks,
                         bool cooperative, cudaStream_t stream) {
  const void* kernel = pypto_kernel(shape);
  if (kernel == nullptr) return cudaErrorNotSupported;
  const int bytes = pypto_shared_bytes(shape);
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
  config.numAttrs = cooperative ? 1 : 0;
  void* params[] = {const_cast<PyptoArgs*>(&args)};
  return cudaLaunchKernelExC(&config, kernel, params);
}

}  // namespace ringfence::cuda

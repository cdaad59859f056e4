// The push kernels and their launcher.
#include "cuda/kernels/push.hpp"

#include <array>
#include <utility>

#include "cuda/kernels/push.cuh"

namespace ringfence::cuda {
namespace {

template <class T, int kWorld, int kVectors>
__global__ void __launch_bounds__(kMaxThreads, 1) push(const __grid_constant__ PushArgs args) {
  Push<T, kWorld, kVectors>(args).run();
}

template <class T, int kVectors>
const void* kernel_of(int world) {
  static constexpr auto kernels = []<int... kRank>(std::integer_sequence<int, kRank...>) {
    return std::array{push<T, kRank + 2, kVectors>...};
  }
  (std::make_integer_sequence<int, kMaxRanks - 1>{});
  return reinterpret_cast<const void*>(kernels[world - 2]);
}

}  // namespace

const void* push_kernel(DataType dtype, int world, int hidden) {
  if (hidden % kVector != 0 || world < 2 || world > kMaxRanks) return nullptr;
  const bool two = hidden > kMaxThreads * kVector;
  if (dtype == DataType::bf16) {
    return two ? kernel_of<__nv_bfloat16, 2>(world) : kernel_of<__nv_bfloat16, 1>(world);
  }
  return two ? kernel_of<__half, 2>(world) : kernel_of<__half, 1>(world);
}

cudaError_t launch_push(const PushArgs& args, DataType dtype, int ranks, Launch how,
                        cudaStream_t stream) {
  if (args.common.tokens == 0) return cudaSuccess;
  const void* kernel = push_kernel(dtype, args.common.world, args.common.hidden);
  if (kernel == nullptr) return cudaErrorNotSupported;
  cudaLaunchAttribute attribute = attribute_of(how);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(args.common.blocks * ranks));
  config.blockDim = dim3(static_cast<unsigned>(tokenweave_threads(args.common.hidden)));
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  void* params[] = {const_cast<PushArgs*>(&args)};
  return cudaLaunchKernelExC(&config, kernel, params);
}

}  // namespace ringfence::cuda

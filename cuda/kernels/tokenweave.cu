// Launcher of the tokenweave kernels.
#include "cuda/kernels/tokenweave.hpp"

namespace ringfence::cuda {

const void* tokenweave_kernel_bf16(const TokenweaveShape& shape, int world, int hidden);
const void* tokenweave_kernel_fp16(const TokenweaveShape& shape, int world, int hidden);

const void* tokenweave_kernel(const TokenweaveShape& shape, int world, int hidden) {
  return shape.dtype == DataType::bf16 ? tokenweave_kernel_bf16(shape, world, hidden)
                                       : tokenweave_kernel_fp16(shape, world, hidden);
}

cudaError_t launch_tokenweave(const TokenweaveArgs& args, TokenweaveShape shape, int ranks,
                              Launch how, cudaStream_t stream) {
  shape.rows = rows_a_block(args.tokens, args.world, args.blocks, ranks);
  const void* kernel = tokenweave_kernel(shape, args.world, args.hidden);
  if (kernel == nullptr) return cudaErrorNotSupported;
  cudaLaunchAttribute attribute = attribute_of(how);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(args.blocks * ranks));
  config.blockDim = dim3(static_cast<unsigned>(
      tokenweave_block(tokenweave_layout(shape, args.world, args.hidden), args.hidden)));
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  void* params[] = {const_cast<TokenweaveArgs*>(&args)};
  return cudaLaunchKernelExC(&config, kernel, params);
}

}  // namespace ringfence::cuda

#include "cuda/host/seed_entry.hpp"

#include "cuda/host/error.hpp"
#include "cuda/host/multicast_gate.hpp"
#include "cuda/kernels/tokenweave.hpp"

namespace ringfence::cuda {
namespace {

constexpr int kDefaultBlocks = 8;

bool on_16_bytes(const void* p) { return p != nullptr && reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// Fills what both entries have in common; false where an argument is out of its range.
bool common(const RingfenceTensor* input, const RingfenceTensor* residual,
            const RingfenceTensor* weight, int64_t signal_pads, int64_t rank, int64_t world,
            int64_t blocks, double epsilon, TokenweaveArgs& args, TokenweaveShape& shape) {
  if (input == nullptr || residual == nullptr || weight == nullptr || signal_pads == 0)
    return false;
  if (world < 1 || world > kMaxRanks || rank < 0 || rank >= world) return false;
  if (input->hidden < 8 || input->hidden > kMaxHidden || input->hidden % 8 != 0) return false;
  if (residual->hidden != input->hidden || residual->tokens != input->tokens) return false;
  if (weight->hidden != input->hidden || input->tokens < 0) return false;
  if (input->dtype != residual->dtype || input->dtype != weight->dtype) return false;
  if (input->dtype != 0 && input->dtype != 1) return false;
  if (!on_16_bytes(residual->data) || !on_16_bytes(weight->data)) return false;
  if (!(epsilon >= 0.0)) return false;
  shape.dtype = input->dtype == 0 ? DataType::bf16 : DataType::fp16;
  args.pad_table = reinterpret_cast<uint32_t* const*>(signal_pads);
  args.local[rank] = {residual->data, residual->data, weight->data, nullptr};
  args.tokens = input->tokens * world;  // every rank has as many rows
  args.hidden = static_cast<int>(input->hidden);
  args.world = static_cast<int>(world);
  args.eps = static_cast<float>(epsilon);
  args.hidden_reciprocal = 1.0f / static_cast<float>(input->hidden);
  args.first_rank = static_cast<int>(rank);
  args.blocks = blocks > 0 ? static_cast<int>(blocks) : kDefaultBlocks;
  args.residual_sharded = 1;
  return true;
}

/// The address of row 0 of the whole tensor, given that of this rank's first row.
void* whole(int64_t slice, const RingfenceTensor& input, int64_t rank) {
  return reinterpret_cast<void*>(slice - rank * input.tokens * input.hidden * 2);
}

}  // namespace
}  // namespace ringfence::cuda

using namespace ringfence::cuda;

int fused_rs_ln_ag_cta(const RingfenceTensor* input, const RingfenceTensor* residual,
                       const RingfenceTensor* weight, int64_t mcptr, int64_t signal_pads,
                       int64_t rank, int64_t world_size, int64_t MAX_CTAS, double epsilon,
                       cudaStream_t stream) {
  try {
    require_multicast(Transport::multimem, process_environment(), [] { return true; });
  } catch (const Error&) {
    return cudaErrorNotSupported;
  }
  TokenweaveArgs args{};
  TokenweaveShape shape;
  if (mcptr == 0 || mcptr % 16 != 0 ||
      !common(input, residual, weight, signal_pads, rank, world_size, MAX_CTAS, epsilon, args,
              shape)) {
    return cudaErrorInvalidValue;
  }
  shape.transport = ringfence::cuda::Transport::multimem;
  args.multicast = whole(mcptr, *input, rank);
  return launch_tokenweave(args, shape, 1, Launch::cooperative, stream);
}

int fused_rs_ln_ag_cta_peer(const RingfenceTensor* input, const RingfenceTensor* residual,
                            const RingfenceTensor* weight, void* const* peers, int64_t signal_pads,
                            int64_t rank, int64_t world_size, int64_t MAX_CTAS, double epsilon,
                            cudaStream_t stream) {
  TokenweaveArgs args{};
  TokenweaveShape shape;
  if (peers == nullptr || !common(input, residual, weight, signal_pads, rank, world_size, MAX_CTAS,
                                  epsilon, args, shape)) {
    return cudaErrorInvalidValue;
  }
  for (int64_t r = 0; r < world_size; ++r) {
    if (!on_16_bytes(peers[r])) return cudaErrorInvalidValue;
    args.replica[r] = whole(reinterpret_cast<int64_t>(peers[r]), *input, rank);
  }
  return launch_tokenweave(args, shape, 1, Launch::cooperative, stream);
}

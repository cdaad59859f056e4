// The instantiations of one element type; included by tokenweave_bf16.cu and tokenweave_fp16.cu so
// that they compile side by side. Needs RINGFENCE_ELEMENT and RINGFENCE_KERNEL_OF.
#include <array>
#include <utility>

#include "cuda/kernels/tokenweave.cuh"

namespace ringfence::cuda {
namespace {

// A block of 1024 threads leaves 64 registers a thread. A stage takes 4 for each part and 4 for
// the residual, a unit 4 more; these are what fits without spilling (checked in tests/cuda from
// ptxas -v) and what measured best where more than one does.
struct Pipeline {
  int rows;
  int stages;
};
constexpr Pipeline peer_pipeline(int world, int vectors) {
  if (vectors == 2) return {1, world <= 2 ? 2 : 1};
  const int rows = world <= 2 ? 2 : 1;
  return {rows, rows};
}

template <int kWorld, int kVectors, Order kPut, Order kWait>
__global__ void __launch_bounds__(kMaxThreads, 1)
    tokenweave_peer(const __grid_constant__ TokenweaveArgs args) {
  constexpr Pipeline kPipeline = peer_pipeline(kWorld, kVectors);
  constexpr bool kAhead = kVectors == 1 || kWorld < 7;
  tokenweave_body<RINGFENCE_ELEMENT, PeerTransport<RINGFENCE_ELEMENT, kWorld, kAhead>, kVectors,
                  kPipeline.rows, kPipeline.stages, kPut, kWait>(args);
}

template <Order kPut, Order kWait>
__global__ void __launch_bounds__(kMaxThreads, 1)
    tokenweave_peer_scalar(const __grid_constant__ TokenweaveArgs args) {
  tokenweave_body<RINGFENCE_ELEMENT, ScalarPeerTransport<RINGFENCE_ELEMENT>, 2, 1, 1, kPut,
                  kWait>(args);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
template <int kVectors, Order kPut, Order kWait>
__global__ void __launch_bounds__(kMaxThreads, 1)
    tokenweave_multimem(const __grid_constant__ TokenweaveArgs args) {
  constexpr int kRows = kVectors == 1 ? 3 : 1;
  tokenweave_body<RINGFENCE_ELEMENT, MultimemTransport<RINGFENCE_ELEMENT>, kVectors, kRows,
                  kRows * kVectors, kPut, kWait>(args);
}
#else
// Older targets have no multimem instructions; the host refuses the transport there.
template <int kVectors, Order kPut, Order kWait>
__global__ void tokenweave_multimem(const __grid_constant__ TokenweaveArgs) {}
#endif

template <int kVectors, Order kPut, Order kWait>
const void* peer_kernel(int world) {
  static constexpr auto kernels = []<int... kRank>(std::integer_sequence<int, kRank...>) {
    return std::array{tokenweave_peer<kRank + 1, kVectors, kPut, kWait>...};
  }(std::make_integer_sequence<int, kMaxRanks>{});
  return reinterpret_cast<const void*>(kernels[world - 1]);
}

template <Order kPut, Order kWait>
const void* kernel_of(const TokenweaveShape& shape, int world, int hidden) {
  const bool two = hidden > kMaxThreads * kVector;
  if (shape.transport == Transport::multimem) {
    if (!shape.aligned) return nullptr;
    return two ? reinterpret_cast<const void*>(tokenweave_multimem<2, kPut, kWait>)
               : reinterpret_cast<const void*>(tokenweave_multimem<1, kPut, kWait>);
  }
  if (!shape.aligned) {
    return reinterpret_cast<const void*>(tokenweave_peer_scalar<kPut, kWait>);
  }
  return two ? peer_kernel<2, kPut, kWait>(world) : peer_kernel<1, kPut, kWait>(world);
}

}  // namespace

const void* RINGFENCE_KERNEL_OF(const TokenweaveShape& shape, int world, int hidden) {
  return shape.start == StartOrder::relaxed
             ? kernel_of<Order::relaxed, Order::relaxed>(shape, world, hidden)
             : kernel_of<Order::release, Order::acquire>(shape, world, hidden);
}

}  // namespace ringfence::cuda

// The instantiations of one element type; included by tokenweave_bf16.cu and tokenweave_fp16.cu so
// that they compile side by side. Needs RINGFENCE_ELEMENT and RINGFENCE_KERNEL_OF.
#include <array>
#include <utility>

#include "cuda/kernels/tokenweave.cuh"

namespace ringfence::cuda {
namespace {

/// The layout of a kernel, from what its template arguments say of the shape.
constexpr TokenweaveLayout layout_of(Transport transport, int world, int vectors, RowsABlock rows) {
  TokenweaveShape shape;
  shape.transport = transport;
  shape.rows = rows;
  return tokenweave_layout(shape, world, vectors == 1 ? 8 : kMaxHidden);
}
/// The rows a block that a kernel is compiled for: one kernel where the layouts are the same.
constexpr RowsABlock compiled_rows(int world, int vectors, RowsABlock rows) {
  const TokenweaveLayout own = layout_of(Transport::peer, world, vectors, rows);
  const TokenweaveLayout usual = layout_of(Transport::peer, world, vectors, RowsABlock::some);
  return own == usual ? RowsABlock::some : rows;
}
constexpr int threads_of(const TokenweaveLayout& layout) {
  return tokenweave_block(layout, kMaxHidden);
}

constexpr TokenweaveLayout kScalar{1, 1, 1, 1, false};
template <int kWorld, int kVectors, RowsABlock kRows>
constexpr TokenweaveLayout kPeer = layout_of(Transport::peer, kWorld, kVectors, kRows);
template <int kVectors>
constexpr TokenweaveLayout kMultimem = layout_of(Transport::multimem, 1, kVectors,
                                                 RowsABlock::some);

template <int kWorld, int kVectors, RowsABlock kRows, Order kPut, Order kWait>
__global__ void __launch_bounds__(threads_of(kPeer<kWorld, kVectors, kRows>), 1)
    tokenweave_peer(const __grid_constant__ TokenweaveArgs args) {
  constexpr TokenweaveLayout kLayout = kPeer<kWorld, kVectors, kRows>;
  constexpr bool kAhead = kVectors == 1 || kWorld < 7;
  tokenweave_body<RINGFENCE_ELEMENT, PeerTransport<RINGFENCE_ELEMENT, kWorld, kAhead>, kVectors,
                  kLayout, kPut, kWait>(args);
}

template <Order kPut, Order kWait>
__global__ void __launch_bounds__(kMaxThreads, 1)
    tokenweave_peer_scalar(const __grid_constant__ TokenweaveArgs args) {
  tokenweave_body<RINGFENCE_ELEMENT, ScalarPeerTransport<RINGFENCE_ELEMENT>, 2, kScalar, kPut,
                  kWait>(args);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
template <int kVectors, Order kPut, Order kWait>
__global__ void __launch_bounds__(threads_of(kMultimem<kVectors>), 1)
    tokenweave_multimem(const __grid_constant__ TokenweaveArgs args) {
  constexpr TokenweaveLayout kLayout = kMultimem<kVectors>;
  tokenweave_body<RINGFENCE_ELEMENT, MultimemTransport<RINGFENCE_ELEMENT>, kVectors, kLayout, kPut,
                  kWait>(args);
}
#else
// Older targets have no multimem instructions; the host refuses the transport there.
template <int kVectors, Order kPut, Order kWait>
__global__ void tokenweave_multimem(const __grid_constant__ TokenweaveArgs) {}
#endif

/// With a gamma and a beta in fp32: kernels of their own, so that the others stay as they are.
template <int kWorld, int kVectors, Order kPut, Order kWait>
__global__ void __launch_bounds__(threads_of(kPeer<kWorld, kVectors, RowsABlock::some>), 1)
    tokenweave_peer_fp32(const __grid_constant__ TokenweaveArgs args) {
  constexpr TokenweaveLayout kLayout = kPeer<kWorld, kVectors, RowsABlock::some>;
  // The addresses that a vector of floats takes are registers that the others load ahead into.
  tokenweave_body<RINGFENCE_ELEMENT, PeerTransport<RINGFENCE_ELEMENT, kWorld, false>, kVectors,
                  kLayout, kPut, kWait, true>(args);
}

template <Order kPut, Order kWait>
__global__ void __launch_bounds__(kMaxThreads, 1)
    tokenweave_peer_scalar_fp32(const __grid_constant__ TokenweaveArgs args) {
  tokenweave_body<RINGFENCE_ELEMENT, ScalarPeerTransport<RINGFENCE_ELEMENT>, 2, kScalar, kPut,
                  kWait, true>(args);
}

template <int kVectors, Order kPut, Order kWait>
__global__ void __launch_bounds__(threads_of(kMultimem<kVectors>), 1)
    tokenweave_multimem_fp32(const __grid_constant__ TokenweaveArgs args) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr TokenweaveLayout kLayout = kMultimem<kVectors>;
  tokenweave_body<RINGFENCE_ELEMENT, MultimemTransport<RINGFENCE_ELEMENT>, kVectors, kLayout, kPut,
                  kWait, true>(args);
#endif
}

template <int kVectors, Order kPut, Order kWait>
const void* peer_fp32_kernel(int world) {
  static constexpr auto kernels = []<int... kRank>(std::integer_sequence<int, kRank...>) {
    return std::array{tokenweave_peer_fp32<kRank + 1, kVectors, kPut, kWait>...};
  }
  (std::make_integer_sequence<int, kMaxRanks>{});
  return reinterpret_cast<const void*>(kernels[world - 1]);
}

template <Order kPut, Order kWait>
const void* fp32_kernel_of(const TokenweaveShape& shape, int world, bool two) {
  if (shape.transport == Transport::multimem) {
    if (!shape.aligned) return nullptr;
    return two ? reinterpret_cast<const void*>(tokenweave_multimem_fp32<2, kPut, kWait>)
               : reinterpret_cast<const void*>(tokenweave_multimem_fp32<1, kPut, kWait>);
  }
  if (!shape.aligned) {
    return reinterpret_cast<const void*>(tokenweave_peer_scalar_fp32<kPut, kWait>);
  }
  return two ? peer_fp32_kernel<2, kPut, kWait>(world) : peer_fp32_kernel<1, kPut, kWait>(world);
}

template <int kVectors, RowsABlock kRows, Order kPut, Order kWait>
const void* peer_kernel(int world) {
  static constexpr auto kernels = []<int... kRank>(std::integer_sequence<int, kRank...>) {
    return std::array{tokenweave_peer<kRank + 1, kVectors,
                                      compiled_rows(kRank + 1, kVectors, kRows), kPut, kWait>...};
  }
  (std::make_integer_sequence<int, kMaxRanks>{});
  return reinterpret_cast<const void*>(kernels[world - 1]);
}

template <int kVectors, Order kPut, Order kWait>
const void* peer_kernel(int world, RowsABlock rows) {
  switch (rows) {
    case RowsABlock::few:
      return peer_kernel<kVectors, RowsABlock::few, kPut, kWait>(world);
    case RowsABlock::near:
      return peer_kernel<kVectors, RowsABlock::near, kPut, kWait>(world);
    default:
      return peer_kernel<kVectors, RowsABlock::some, kPut, kWait>(world);
  }
}

template <Order kPut, Order kWait>
const void* kernel_of(const TokenweaveShape& shape, int world, int hidden) {
  const bool two = hidden > kMaxThreads * kVector;
  if (shape.fp32_rows) return fp32_kernel_of<kPut, kWait>(shape, world, two);
  if (shape.transport == Transport::multimem) {
    if (!shape.aligned) return nullptr;
    return two ? reinterpret_cast<const void*>(tokenweave_multimem<2, kPut, kWait>)
               : reinterpret_cast<const void*>(tokenweave_multimem<1, kPut, kWait>);
  }
  if (!shape.aligned) {
    return reinterpret_cast<const void*>(tokenweave_peer_scalar<kPut, kWait>);
  }
  return two ? peer_kernel<2, kPut, kWait>(world, shape.rows)
             : peer_kernel<1, kPut, kWait>(world, shape.rows);
}

}  // namespace

const void* RINGFENCE_KERNEL_OF(const TokenweaveShape& shape, int world, int hidden) {
  return shape.start == StartOrder::relaxed
             ? kernel_of<Order::relaxed, Order::relaxed>(shape, world, hidden)
             : kernel_of<Order::release, Order::acquire>(shape, world, hidden);
}

}  // namespace ringfence::cuda

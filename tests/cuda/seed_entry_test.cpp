#include "cuda/host/seed_entry.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

#include "cuda/host/device_buffer.hpp"
#include "cuda/kernels/tokenweave.hpp"
#include "tests/cuda/gpu.hpp"
#include "verify/dtype.hpp"

using namespace ringfence;
using namespace ringfence::cuda;

TEST_CASE("fused_rs_ln_ag_cta: refuses bad arguments without a launch") {
  uint32_t pad = 0;
  RingfenceTensor tensor{&pad, 4, 64, 0};
  void* peers[2] = {nullptr, nullptr};
  const auto call = [&](const RingfenceTensor* input, int64_t rank, int64_t world) {
    return fused_rs_ln_ag_cta_peer(input, &tensor, &tensor, peers, 16, rank, world, 8, 1e-6,
                                   nullptr);
  };
  CHECK(call(nullptr, 0, 2) == cudaErrorInvalidValue);
  CHECK(call(&tensor, 2, 2) == cudaErrorInvalidValue);
  CHECK(call(&tensor, 0, 9) == cudaErrorInvalidValue);
  RingfenceTensor odd = tensor;
  odd.hidden = 63;
  CHECK(call(&odd, 0, 2) == cudaErrorInvalidValue);
  CHECK(call(&tensor, 0, 2) == cudaErrorInvalidValue);  // null replicas
}

TEST_CASE("fused_rs_ln_ag_cta: the multicast entry obeys the switches before anything else") {
  setenv("NVSHMEM_DISABLE_NVLS", "1", 1);
  RingfenceTensor tensor{nullptr, 4, 64, 0};
  CHECK(fused_rs_ln_ag_cta(&tensor, &tensor, &tensor, 16, 16, 0, 2, 8, 1e-6, nullptr) ==
        cudaErrorNotSupported);
}

TEST_CASE("fused_rs_ln_ag_cta: ranks on streams of one GPU sum, add and normalise their slices") {
  if (tests::gpu_missing()) return;
  constexpr int kRanks = 2;
  constexpr int64_t kRows = 3;  // a rank
  constexpr int kHidden = 1024;
  const size_t whole = kRanks * kRows * kHidden;
  std::vector<DeviceBuffer> replicas, residuals, pads;
  std::vector<void*> pad_pointers;
  for (int r = 0; r < kRanks; ++r) {
    replicas.emplace_back(0, whole * 2);
    residuals.emplace_back(0, kRows * kHidden * 2);
    pads.emplace_back(0, 4096);
    check(cudaMemset(pads.back().get(), 0, 4096), "pads");
    pad_pointers.push_back(pads.back().get());
    // Partials 1 + r, residual 1: the sum is 1 + 2 + 1 = 4, so the norm is 1.
    std::vector<uint16_t> values(whole, verify::float_to_bf16(1.0f + static_cast<float>(r)));
    check(cudaMemcpy(replicas.back().get(), values.data(), whole * 2, cudaMemcpyHostToDevice), "x");
    std::fill(values.begin(), values.end(), verify::float_to_bf16(1.0f));
    check(cudaMemcpy(residuals.back().get(), values.data(), kRows * kHidden * 2,
                     cudaMemcpyHostToDevice),
          "residual");
  }
  DeviceBuffer gamma(0, kHidden * 2);
  std::vector<uint16_t> gammas(kHidden);
  for (int i = 0; i < kHidden; ++i)
    gammas[static_cast<size_t>(i)] = verify::float_to_bf16(i % 7 - 3.0f);
  check(cudaMemcpy(gamma.get(), gammas.data(), kHidden * 2, cudaMemcpyHostToDevice), "gamma");
  DeviceBuffer table(0, kRanks * sizeof(void*));
  check(
      cudaMemcpy(table.get(), pad_pointers.data(), kRanks * sizeof(void*), cudaMemcpyHostToDevice),
      "table");
  std::vector<cudaStream_t> streams(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    check(cudaStreamCreateWithFlags(&streams[static_cast<size_t>(r)], cudaStreamNonBlocking),
          "stream");
  }
  for (int r = 0; r < kRanks; ++r) {
    const size_t slice = static_cast<size_t>(r) * kRows * kHidden * 2;
    std::vector<void*> peers;
    for (auto& replica : replicas) peers.push_back(replica.as<char>() + slice);
    const RingfenceTensor input{peers[static_cast<size_t>(r)], kRows, kHidden, 0};
    const RingfenceTensor residual{residuals[static_cast<size_t>(r)].get(), kRows, kHidden, 0};
    const RingfenceTensor weight{gamma.get(), 1, kHidden, 0};
    REQUIRE(fused_rs_ln_ag_cta_peer(&input, &residual, &weight, peers.data(),
                                    reinterpret_cast<int64_t>(table.get()), r, kRanks, 0, 0.0,
                                    streams[static_cast<size_t>(r)]) == 0);
  }
  check(cudaDeviceSynchronize(), "kernels");
  for (auto& replica : replicas) {
    std::vector<uint16_t> out(whole);
    check(cudaMemcpy(out.data(), replica.get(), whole * 2, cudaMemcpyDeviceToHost), "out");
    int64_t wrong = 0;
    for (size_t i = 0; i < whole; ++i) wrong += out[i] != gammas[i % kHidden];
    CHECK(wrong == 0);
  }
  for (auto& residual : residuals) {
    std::vector<uint16_t> z(kRows * kHidden);
    check(cudaMemcpy(z.data(), residual.get(), z.size() * 2, cudaMemcpyDeviceToHost), "residual");
    int64_t wrong = 0;
    for (uint16_t v : z) wrong += v != verify::float_to_bf16(4.0f);
    CHECK(wrong == 0);
  }
  for (cudaStream_t s : streams) (void)cudaStreamDestroy(s);
}

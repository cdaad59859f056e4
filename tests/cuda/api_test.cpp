#include <doctest/doctest.h>

#include <vector>

#include "cuda/host/device_buffer.hpp"
#include "cuda/ringfence.hpp"
#include "tests/cuda/gpu.hpp"
#include "verify/doctest.hpp"
#include "verify/reference.hpp"

using namespace ringfence;
using namespace ringfence::cuda;

TEST_CASE("api: errors come back as a status with a text, on a machine without a GPU too") {
  Communicator communicator;
  Status s = Communicator::virtual_ranks(9, 0, &communicator);
  CHECK(!s.ok());
  CHECK(s.code() == ErrorCode::invalid_argument);
  CHECK(s.text().find("use 1 to 8") != std::string::npos);
  Operator op;
  s = Operator::create(Communicator(), {}, &op);
  CHECK(!s.ok());
  CHECK(s.text() == "the communicator was not created");
  CHECK(!matmul_allreduce_add_rmsnorm(op, 1, nullptr).ok());
}

TEST_CASE(
    "api: matmul_allreduce_add_rmsnorm in waves, replayed with new payloads, is within the "
    "bounds") {
  if (tests::gpu_missing()) return;
  constexpr int kRanks = 4;
  verify::Problem p;
  p.ranks = kRanks;
  p.tokens = 300;
  p.inner = 256 * kRanks;
  p.hidden = 2048;
  Communicator communicator;
  Status s = Communicator::virtual_ranks(kRanks, 0, &communicator);
  REQUIRE_MESSAGE(s.ok(), s.text());
  OperatorConfig config;
  config.max_tokens = p.tokens;
  config.inner = 256;
  config.hidden = 2048;
  config.blocks = 4;
  config.waves = 3;
  config.timeout_seconds = 5;
  Operator op;
  s = Operator::create(communicator, config, &op);
  REQUIRE_MESSAGE(s.ok(), s.text());
  const size_t t = 300, h = 2048, k = 256;
  std::vector<DeviceBuffer> x, weight, residual, gamma;
  for (int r = 0; r < kRanks; ++r) {
    x.emplace_back(0, t * k * 2);
    weight.emplace_back(0, h * k * 2);
    residual.emplace_back(0, t * h * 2);
    gamma.emplace_back(0, h * 2);
    s = op.set_tensors(r, {x.back().get(), weight.back().get(), residual.back().get(),
                           gamma.back().get(), nullptr});
    REQUIRE_MESSAGE(s.ok(), s.text());
  }
  CHECK(!matmul_allreduce_add_rmsnorm(op, p.tokens, nullptr).ok());  // not prepared
  s = op.prepare(p.tokens);
  REQUIRE_MESSAGE(s.ok(), s.text());
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  for (uint64_t call = 0; call < 3; ++call) {
    const verify::Inputs inputs = verify::generate(p, verify::Fill::normal, 3, call);
    for (int r = 0; r < kRanks; ++r) {
      const size_t i = static_cast<size_t>(r);
      check(cudaMemcpy2D(x[i].get(), k * 2, inputs.x.bits() + i * k, k * kRanks * 2, k * 2, t,
                         cudaMemcpyHostToDevice),
            "x");
      check(cudaMemcpy2D(weight[i].get(), k * 2, inputs.weight.bits() + i * k, k * kRanks * 2,
                         k * 2, h, cudaMemcpyHostToDevice),
            "weight");
      check(
          cudaMemcpy(residual[i].get(), inputs.residual.bits(), t * h * 2, cudaMemcpyHostToDevice),
          "residual");
      check(cudaMemcpy(gamma[i].get(), inputs.gamma.bits(), h * 2, cudaMemcpyHostToDevice),
            "gamma");
    }
    s = matmul_allreduce_add_rmsnorm(op, p.tokens, stream);
    REQUIRE_MESSAGE(s.ok(), s.text());
    check(cudaStreamSynchronize(stream), "the call");
    s = op.check();
    CHECK_MESSAGE(s.ok(), s.text());
    const verify::FusedReference reference =
        verify::operator_reference(p, inputs, verify::Summation::fp32_rank_order, {0, p.tokens});
    for (int r = 0; r < kRanks; ++r) {
      verify::Tensor out(p.dtype, {p.tokens, p.hidden});
      check(cudaMemcpy(out.bits(), op.out(r), out.bytes.size(), cudaMemcpyDeviceToHost), "out");
      RINGFENCE_CHECK_COMPARISON(verify::compare("out", out, reference.out, reference.out_bound));
    }
  }
  (void)cudaStreamDestroy(stream);
}

TEST_CASE("api: a symmetric buffer has a zeroed replica on every rank") {
  if (tests::gpu_missing()) return;
  Communicator communicator;
  REQUIRE(Communicator::virtual_ranks(2, 0, &communicator).ok());
  SymmetricBuffer buffer;
  REQUIRE(SymmetricBuffer::allocate(communicator, 4096, &buffer).ok());
  CHECK(buffer.replica(0) != buffer.replica(1));
  std::vector<char> bytes(4096, 1);
  check(cudaMemcpy(bytes.data(), buffer.replica(1), 4096, cudaMemcpyDeviceToHost), "copy");
  CHECK(bytes == std::vector<char>(4096, 0));
}

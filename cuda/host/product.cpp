#include "cuda/host/product.hpp"

#include <cublasLt.h>
#include <fmt/format.h>

#include <map>

#include "cuda/host/check.hpp"
#include "cuda/host/error.hpp"

namespace ringfence::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

void check_blas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCode::driver, fmt::format("{}: {}", what, cublasLtGetStatusString(status)));
}

/// The layouts and the algorithm for one number of tokens.
struct Plan {
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  ~Plan() {
    for (auto layout : {a, b, c}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }
};

}  // namespace

struct Product::State {
  int device = 0;
  cudaDataType_t type = CUDA_R_16BF;
  int inner = 0;
  int hidden = 0;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  void* workspace = nullptr;
  std::map<int64_t, Plan> plans;

  ~State() {
    plans.clear();
    if (description != nullptr) cublasLtMatmulDescDestroy(description);
    if (handle != nullptr) cublasLtDestroy(handle);
    (void)cudaFree(workspace);
  }
};

Product::Product(int device, DataType dtype, int inner, int hidden, int sm_target)
    : state_(std::make_unique<State>()) {
  const DeviceScope scope(device);
  State& s = *state_;
  s.device = device;
  s.type = dtype == DataType::bf16 ? CUDA_R_16BF : CUDA_R_16F;
  s.inner = inner;
  s.hidden = hidden;
  check_blas(cublasLtCreate(&s.handle), "cublasLtCreate");
  check_blas(cublasLtMatmulDescCreate(&s.description, CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "cublasLtMatmulDescCreate");
  // cuBLASLt is column-major: what is [H, K] row-major here is [K, H] there, to be transposed.
  const cublasOperation_t transpose = CUBLAS_OP_T;
  check_blas(cublasLtMatmulDescSetAttribute(s.description, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                            sizeof transpose),
             "cublasLtMatmulDescSetAttribute");
  if (sm_target > 0) {
    const int32_t target = sm_target;
    check_blas(cublasLtMatmulDescSetAttribute(
                   s.description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target, sizeof target),
               "cublasLtMatmulDescSetAttribute");
  }
  check(cudaMalloc(&s.workspace, kWorkspaceBytes), "cudaMalloc");
}

Product::~Product() = default;
Product::Product(Product&&) noexcept = default;
Product& Product::operator=(Product&&) noexcept = default;

void Product::prepare(int64_t tokens) {
  State& s = *state_;
  if (tokens == 0 || s.plans.count(tokens) != 0) return;
  const DeviceScope scope(s.device);
  Plan& plan = s.plans[tokens];
  const uint64_t k = static_cast<uint64_t>(s.inner);
  const uint64_t h = static_cast<uint64_t>(s.hidden);
  const uint64_t t = static_cast<uint64_t>(tokens);
  cublasLtMatmulPreference_t preference = nullptr;
  try {
    check_blas(cublasLtMatrixLayoutCreate(&plan.a, s.type, k, h, s.inner), "layout of weight");
    check_blas(cublasLtMatrixLayoutCreate(&plan.b, s.type, k, t, s.inner), "layout of x");
    check_blas(cublasLtMatrixLayoutCreate(&plan.c, s.type, h, t, s.hidden), "layout of partial");
    check_blas(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    check_blas(cublasLtMatmulPreferenceSetAttribute(
                   preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                   sizeof kWorkspaceBytes),
               "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(s.handle, s.description, plan.a, plan.b, plan.c, plan.c,
                                       preference, 1, &result, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
      throw Error(ErrorCode::not_supported,
                  fmt::format("cuBLASLt has no product for tokens {}, inner {}, hidden {}", tokens,
                              s.inner, s.hidden));
    }
    plan.algorithm = result.algo;
  } catch (...) {
    if (preference != nullptr) cublasLtMatmulPreferenceDestroy(preference);
    s.plans.erase(tokens);
    throw;
  }
  cublasLtMatmulPreferenceDestroy(preference);
}

void Product::enqueue(const void* x, const void* weight, void* partial, int64_t tokens,
                      cudaStream_t stream) const {
  if (tokens == 0) return;
  const State& s = *state_;
  const auto found = s.plans.find(tokens);
  if (found == s.plans.end()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the product was not prepared for {} tokens", tokens));
  }
  const float one = 1.0f;
  const float zero = 0.0f;
  const Plan& plan = found->second;
  check_blas(cublasLtMatmul(s.handle, s.description, &one, weight, plan.a, x, plan.b, &zero,
                            partial, plan.c, partial, plan.c, &plan.algorithm, s.workspace,
                            kWorkspaceBytes, stream),
             "cublasLtMatmul");
}

}  // namespace ringfence::cuda

// The functions of cuBLASLt that cuda/host/product.cpp calls, for programs under `ringfence exec`:
// cuBLASLt itself needs a driver. The product is computed by the host, between two copies.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

// What a layout says, in the words that cuBLASLt keeps there.
struct Layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t pitch;
};
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));

struct Description {
  cublasOperation_t transpose_a;
};
static_assert(sizeof(Description) <= sizeof(cublasLtMatmulDescOpaque_t));

Layout of(cublasLtMatrixLayout_t layout) {
  Layout l;
  std::memcpy(&l, layout, sizeof l);
  return l;
}

template <class T>
std::vector<float> fetch(const void* from, const Layout& l) {
  std::vector<T> raw(static_cast<std::size_t>(l.pitch) * l.columns);
  if (cudaMemcpy(raw.data(), from, raw.size() * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess) {
    return {};
  }
  return {raw.begin(), raw.end()};
}

// d = transpose(a) * b, column-major.
template <class T>
cublasStatus_t multiply(const void* a, const Layout& la, const void* b, const Layout& lb, void* d,
                        const Layout& ld, cudaStream_t stream) {
  if (cudaStreamSynchronize(stream) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  const std::vector<float> left = fetch<T>(a, la), right = fetch<T>(b, lb);
  if (left.empty() || right.empty()) return CUBLAS_STATUS_EXECUTION_FAILED;
  std::vector<T> out(static_cast<std::size_t>(ld.pitch) * ld.columns);
  for (std::uint64_t column = 0; column < ld.columns; ++column) {
    for (std::uint64_t row = 0; row < ld.rows; ++row) {
      const float* const x = &left[row * static_cast<std::uint64_t>(la.pitch)];
      const float* const y = &right[column * static_cast<std::uint64_t>(lb.pitch)];
      float sum = 0;
      for (std::uint64_t k = 0; k < la.rows; ++k) sum += x[k] * y[k];
      out[column * static_cast<std::uint64_t>(ld.pitch) + row] = T(sum);
    }
  }
  // Its bytes are taken before it returns: they are pageable.
  return cudaMemcpyAsync(d, out.data(), out.size() * sizeof(T), cudaMemcpyHostToDevice, stream) ==
                 cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS         ? "success"
         : status == CUBLAS_STATUS_NOT_SUPPORTED ? "not in the stand-in"
                                                 : "failed";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *out = new cublasLtMatmulDescOpaque_t{};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA && bytes == sizeof(cublasOperation_t)) {
    std::memcpy(description, value, bytes);
  } else if (attribute != CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t pitch) {
  if (type != CUDA_R_16BF && type != CUDA_R_16F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *out = new cublasLtMatrixLayoutOpaque_t{};
  const Layout l{type, rows, columns, pitch};
  std::memcpy(*out, &l, sizeof l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  *out = new cublasLtMatmulPreferenceOpaque_t{};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void*, size_t) {
  return attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? CUBLAS_STATUS_SUCCESS
                                                               : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t* out, int* found) {
  *out = {};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
  Description how;
  std::memcpy(&how, description, sizeof how);
  const Layout la = of(layout_a), lb = of(layout_b), ld = of(layout_d);
  const bool as_due = how.transpose_a == CUBLAS_OP_T && *static_cast<const float*>(alpha) == 1 &&
                      *static_cast<const float*>(beta) == 0 && c == d && la.rows == lb.rows &&
                      la.columns == ld.rows && lb.columns == ld.columns && la.type == lb.type &&
                      la.type == ld.type;
  if (!as_due) return CUBLAS_STATUS_NOT_SUPPORTED;
  return la.type == CUDA_R_16BF ? multiply<__nv_bfloat16>(a, la, b, lb, d, ld, stream)
                                : multiply<__half>(a, la, b, lb, d, ld, stream);
}

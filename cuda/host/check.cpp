#include "cuda/host/check.hpp"

#include <fmt/format.h>

#include "cuda/host/error.hpp"

namespace ringfence::cuda {

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();  // so that the next call does not report this one again
  const ErrorCode code = result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver
                             ? ErrorCode::no_device
                             : ErrorCode::driver;
  throw Error(code, fmt::format("{}: {}", what, cudaGetErrorString(result)));
}

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  driver_function_as<CUresult (*)(CUresult, const char**)>("cuGetErrorString")(result, &text);
  throw Error(ErrorCode::driver, fmt::format("{}: {}", what, text != nullptr ? text : "unknown"));
}

void* driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion(name, &function, CUDART_VERSION / 10 * 10,
                                         cudaEnableDefault, &found),
        name);
#else
  check(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found), name);
#endif
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    throw Error(ErrorCode::not_supported,
                fmt::format("the driver has no {}: a newer driver is needed", name));
  }
  return function;
}

DeviceScope::DeviceScope(int device) {
  check(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ != device) check(cudaSetDevice(device), "cudaSetDevice");
}

DeviceScope::~DeviceScope() { (void)cudaSetDevice(before_); }

}  // namespace ringfence::cuda

// CUDA results to exceptions, and the driver's functions without linking libcuda: a program built
// with the CUDA side then still starts, and explains itself, on a machine without a driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace ringfence::cuda {

/// Throws Error(driver) "<what>: <text of the error>" unless result is cudaSuccess.
void check(cudaError_t result, const char* what);
void check(CUresult result, const char* what);

/// A driver function by name, looked up through the runtime; throws Error(not_supported) where the
/// driver has none. F is the function's pointer type.
void* driver_function(const char* name);
template <class F>
F driver_function_as(const char* name) {
  return reinterpret_cast<F>(driver_function(name));
}

/// Makes a device current for a scope.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
};

}  // namespace ringfence::cuda

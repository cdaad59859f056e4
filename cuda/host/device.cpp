#include "cuda/host/device.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "cuda/host/check.hpp"
#include "cuda/host/error.hpp"

namespace ringfence::cuda {
namespace {

std::string version_text(int version) {
  return version == 0 ? std::string() : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int attribute(int device, cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

bool multicast_supported(int device) {
  int value = 0;
  const auto get = driver_function_as<CUresult (*)(int*, CUdevice_attribute, CUdevice)>(
      "cuDeviceGetAttribute");
  // A driver too old to know the attribute has no multicast.
  return get(&value, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device) == CUDA_SUCCESS && value != 0;
}

}  // namespace

std::vector<Device> devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};
  }
  std::vector<Device> all;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, i), "cudaGetDeviceProperties");
    Device d;
    d.ordinal = i;
    d.name = properties.name;
    d.major = properties.major;
    d.minor = properties.minor;
    d.multiprocessors = properties.multiProcessorCount;
    d.memory_gib = static_cast<double>(properties.totalGlobalMem) / (1024.0 * 1024 * 1024);
    d.l2_mib = properties.l2CacheSize / (1024.0 * 1024);
    d.cooperative_launch = attribute(i, cudaDevAttrCooperativeLaunch) != 0;
    d.multicast_supported = multicast_supported(i);
    all.push_back(d);
  }
  return all;
}

std::string driver_version() {
  int version = 0;
  (void)cudaDriverGetVersion(&version);
  return version_text(version);
}

std::string runtime_version() {
  int version = 0;
  (void)cudaRuntimeGetVersion(&version);
  return version_text(version);
}

Device require_device(int ordinal) {
  const std::vector<Device> all = devices();
  if (ordinal < 0 || ordinal >= static_cast<int>(all.size())) {
    throw Error(ErrorCode::no_device,
                fmt::format("device {} is not there: this machine has {} CUDA device{}", ordinal,
                            all.size(), all.size() == 1 ? "" : "s"));
  }
  return all[static_cast<size_t>(ordinal)];
}

void require_kernels(const Device& device, const void* kernel, const char* name) {
  const DeviceScope scope(device.ordinal);
  cudaFuncAttributes attributes{};
  const cudaError_t found = cudaFuncGetAttributes(&attributes, kernel);
  (void)cudaGetLastError();
  if (found != cudaSuccess) {
    throw Error(ErrorCode::not_supported,
                fmt::format("{} was not compiled for {} (sm_{}{}): add it to "
                            "CMAKE_CUDA_ARCHITECTURES",
                            name, device.name, device.major, device.minor));
  }
}

void require_peer_access(const std::vector<int>& ordinals) {
  for (int a : ordinals) {
    for (int b : ordinals) {
      int can = 1;
      if (a != b) check(cudaDeviceCanAccessPeer(&can, a, b), "cudaDeviceCanAccessPeer");
      if (can == 0) {
        throw Error(ErrorCode::not_supported,
                    fmt::format("device {} cannot access the memory of device {}: use devices that "
                                "are linked (nvidia-smi topo -m)",
                                a, b));
      }
    }
  }
}

}  // namespace ringfence::cuda

// Plain device memory that frees itself.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cuda/host/check.hpp"

namespace ringfence::cuda {

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(int device, size_t bytes) : device_(device), bytes_(std::max<size_t>(bytes, 256)) {
    const DeviceScope scope(device);
    check(cudaMalloc(&data_, bytes_), "cudaMalloc");
  }
  ~DeviceBuffer() { (void)cudaFree(data_); }
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* get() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int device() const { return device_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int device_ = 0;
  size_t bytes_ = 0;
};

}  // namespace ringfence::cuda

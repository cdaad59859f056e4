// The CUDA virtual memory calls as owning objects. Internal to the host side.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

namespace ringfence::cuda {

/// Physical memory on a device, exportable as a POSIX file descriptor.
class PhysicalMemory {
 public:
  /// bytes must be a multiple of granularity(device).
  PhysicalMemory(int device, size_t bytes);
  /// Imports; does not take the descriptor.
  explicit PhysicalMemory(int descriptor);
  ~PhysicalMemory();
  PhysicalMemory(PhysicalMemory&& other) noexcept;
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  CUmemGenericAllocationHandle handle() const { return handle_; }
  /// A new descriptor, the caller's to close.
  int export_descriptor() const;

  static size_t granularity(int device);

 private:
  CUmemGenericAllocationHandle handle_ = 0;
  bool owned_ = false;
};

/// A mapping of physical (or multicast) memory, readable and writable by the given devices. Holds
/// the memory even after its PhysicalMemory has gone.
class Mapping {
 public:
  Mapping(CUmemGenericAllocationHandle handle, size_t bytes, size_t granularity,
          const std::vector<int>& devices);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void* address() const { return reinterpret_cast<void*>(address_); }

 private:
  void release();
  CUdeviceptr address_ = 0;
  size_t bytes_ = 0;
  bool mapped_ = false;
};

}  // namespace ringfence::cuda

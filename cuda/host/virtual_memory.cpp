#include "cuda/host/virtual_memory.hpp"

#include <cstdint>
#include <utility>

#include "cuda/host/check.hpp"

namespace ringfence::cuda {
namespace {

CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

}  // namespace

size_t PhysicalMemory::granularity(int device) {
  const CUmemAllocationProp properties = properties_of(device);
  size_t bytes = 0;
  check(driver_function_as<CUresult (*)(size_t*, const CUmemAllocationProp*,
                                        CUmemAllocationGranularity_flags)>(
            "cuMemGetAllocationGranularity")(&bytes, &properties,
                                             CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        "cuMemGetAllocationGranularity");
  return bytes;
}

PhysicalMemory::PhysicalMemory(int device, size_t bytes) {
  const CUmemAllocationProp properties = properties_of(device);
  check(driver_function_as<CUresult (*)(CUmemGenericAllocationHandle*, size_t,
                                        const CUmemAllocationProp*, unsigned long long)>(
            "cuMemCreate")(&handle_, bytes, &properties, 0),
        "cuMemCreate");
  owned_ = true;
}

PhysicalMemory::PhysicalMemory(int descriptor) {
  check(driver_function_as<CUresult (*)(CUmemGenericAllocationHandle*, void*,
                                        CUmemAllocationHandleType)>(
            "cuMemImportFromShareableHandle")(
            &handle_, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "cuMemImportFromShareableHandle");
  owned_ = true;
}

PhysicalMemory::PhysicalMemory(PhysicalMemory&& other) noexcept
    : handle_(other.handle_), owned_(std::exchange(other.owned_, false)) {}

PhysicalMemory::~PhysicalMemory() {
  if (!owned_) return;
  // Without checks: a destructor must not throw, and the process may be ending after an error.
  (void)driver_function_as<CUresult (*)(CUmemGenericAllocationHandle)>("cuMemRelease")(handle_);
}

int PhysicalMemory::export_descriptor() const {
  int descriptor = -1;
  check(driver_function_as<CUresult (*)(void*, CUmemGenericAllocationHandle,
                                        CUmemAllocationHandleType, unsigned long long)>(
            "cuMemExportToShareableHandle")(&descriptor, handle_,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "cuMemExportToShareableHandle");
  return descriptor;
}

Mapping::Mapping(CUmemGenericAllocationHandle handle, size_t bytes, size_t granularity,
                 const std::vector<int>& devices)
    : bytes_(bytes) {
  check(driver_function_as<CUresult (*)(CUdeviceptr*, size_t, size_t, CUdeviceptr,
                                        unsigned long long)>("cuMemAddressReserve")(
            &address_, bytes, granularity, 0, 0),
        "cuMemAddressReserve");
  try {
    check(driver_function_as<CUresult (*)(CUdeviceptr, size_t, size_t,
                                          CUmemGenericAllocationHandle, unsigned long long)>(
              "cuMemMap")(address_, bytes, 0, handle, 0),
          "cuMemMap");
    mapped_ = true;
    std::vector<CUmemAccessDesc> access;
    for (int device : devices) {
      CUmemAccessDesc description{};
      description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      description.location.id = device;
      description.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      access.push_back(description);
    }
    check(driver_function_as<CUresult (*)(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t)>(
              "cuMemSetAccess")(address_, bytes, access.data(), access.size()),
          "cuMemSetAccess");
  } catch (...) {
    release();
    throw;
  }
}

Mapping::Mapping(Mapping&& other) noexcept
    : address_(std::exchange(other.address_, 0)),
      bytes_(other.bytes_),
      mapped_(std::exchange(other.mapped_, false)) {}

Mapping::~Mapping() { release(); }

void Mapping::release() {
  if (address_ == 0) return;
  if (mapped_) {
    (void)driver_function_as<CUresult (*)(CUdeviceptr, size_t)>("cuMemUnmap")(address_, bytes_);
  }
  (void)driver_function_as<CUresult (*)(CUdeviceptr, size_t)>("cuMemAddressFree")(address_, bytes_);
  address_ = 0;
}

}  // namespace ringfence::cuda

#include "cuda/host/multicast.hpp"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/host/check.hpp"
#include "cuda/host/device.hpp"

namespace ringfence::cuda {

struct MulticastMemory::State {
  int device = 0;
  size_t bytes = 0;
  std::optional<PhysicalMemory> memory;  // the own replica
  CUmemGenericAllocationHandle object = 0;
  bool has_object = false;
  bool bound = false;
  std::vector<Mapping> replicas;
  std::optional<Mapping> multicast;

  ~State() {
    multicast.reset();
    replicas.clear();
    if (bound) {
      (void)driver_function_as<CUresult (*)(CUmemGenericAllocationHandle, CUdevice, size_t, size_t)>(
          "cuMulticastUnbind")(object, device, 0, bytes);
    }
    if (has_object) {
      (void)driver_function_as<CUresult (*)(CUmemGenericAllocationHandle)>("cuMemRelease")(object);
    }
  }
};

namespace {

CUmulticastObjectProp properties_of(int ranks, size_t bytes) {
  CUmulticastObjectProp properties{};
  properties.numDevices = static_cast<unsigned>(ranks);
  properties.size = bytes;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

/// Rank 0's descriptor of the object, on every rank.
int share_object(Bootstrap& bootstrap, CUmemGenericAllocationHandle object) {
  int exported = -1;
  if (bootstrap.place().rank == 0) {
    check(driver_function_as<CUresult (*)(void*, CUmemGenericAllocationHandle,
                                          CUmemAllocationHandleType, unsigned long long)>(
              "cuMemExportToShareableHandle")(&exported, object,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
          "cuMemExportToShareableHandle (multicast)");
  } else {
    exported = dup(STDERR_FILENO);  // the exchange takes one from every rank
  }
  std::vector<int> all = bootstrap.exchange_descriptor(exported);
  close(exported);
  for (size_t r = 1; r < all.size(); ++r) close(all[r]);
  return all[0];
}

}  // namespace

MulticastMemory::MulticastMemory(Transport transport, const Environment& environment,
                                 Bootstrap& bootstrap, int device, size_t bytes) {
  require_multicast(transport, environment,
                    [device] { return require_device(device).multicast_supported; });

  state_ = std::make_unique<State>();
  State& s = *state_;
  s.device = device;
  const int ranks = bootstrap.place().size;
  const int rank = bootstrap.place().rank;
  const DeviceScope scope(device);
  check(cudaFree(nullptr), "the device's context");

  size_t granularity = PhysicalMemory::granularity(device);
  const CUmulticastObjectProp guess = properties_of(ranks, bytes);
  size_t multicast_granularity = 0;
  check(driver_function_as<CUresult (*)(size_t*, const CUmulticastObjectProp*,
                                        CUmulticastGranularity_flags)>(
            "cuMulticastGetGranularity")(&multicast_granularity, &guess,
                                         CU_MULTICAST_GRANULARITY_RECOMMENDED),
        "cuMulticastGetGranularity");
  granularity = std::max(granularity, multicast_granularity);
  s.bytes = (bytes + granularity - 1) / granularity * granularity;

  if (rank == 0) {
    const CUmulticastObjectProp properties = properties_of(ranks, s.bytes);
    check(driver_function_as<CUresult (*)(CUmemGenericAllocationHandle*,
                                          const CUmulticastObjectProp*)>("cuMulticastCreate")(
              &s.object, &properties),
          "cuMulticastCreate");
    s.has_object = true;
  }
  const int descriptor = share_object(bootstrap, s.object);
  if (rank != 0) {
    const CUresult imported =
        driver_function_as<CUresult (*)(CUmemGenericAllocationHandle*, void*,
                                        CUmemAllocationHandleType)>(
            "cuMemImportFromShareableHandle")(
            &s.object, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    s.has_object = imported == CUDA_SUCCESS;
    close(descriptor);
    check(imported, "cuMemImportFromShareableHandle (multicast)");
  } else {
    close(descriptor);
  }
  check(driver_function_as<CUresult (*)(CUmemGenericAllocationHandle, CUdevice)>(
            "cuMulticastAddDevice")(s.object, device),
        "cuMulticastAddDevice");
  bootstrap.barrier();  // every device is added before any memory is bound

  s.memory.emplace(device, s.bytes);
  check(driver_function_as<CUresult (*)(CUmemGenericAllocationHandle, size_t,
                                        CUmemGenericAllocationHandle, size_t, size_t,
                                        unsigned long long)>("cuMulticastBindMem")(
            s.object, 0, s.memory->handle(), 0, s.bytes, 0),
        "cuMulticastBindMem");
  s.bound = true;
  bootstrap.barrier();  // every rank's memory is bound before the address is mapped

  const int exported = s.memory->export_descriptor();
  std::vector<int> descriptors = bootstrap.exchange_descriptor(exported);
  close(exported);
  for (int r = 0; r < ranks; ++r) {
    if (r == rank) {
      s.replicas.emplace_back(s.memory->handle(), s.bytes, granularity, std::vector{device});
    } else {
      s.replicas.emplace_back(PhysicalMemory(descriptors[static_cast<size_t>(r)]).handle(), s.bytes,
                              granularity, std::vector{device});
    }
    close(descriptors[static_cast<size_t>(r)]);
  }
  s.multicast.emplace(s.object, s.bytes, granularity, std::vector{device});
  check(cudaMemset(s.replicas[static_cast<size_t>(rank)].address(), 0, s.bytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaMemset");
  bootstrap.barrier();
}

MulticastMemory::~MulticastMemory() = default;

void* MulticastMemory::multicast() const { return state_->multicast->address(); }
void* MulticastMemory::replica(int rank) const {
  return state_->replicas[static_cast<size_t>(rank)].address();
}

}  // namespace ringfence::cuda

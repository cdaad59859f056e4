#include "cuda/host/symmetric_memory.hpp"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include "cuda/host/check.hpp"
#include "cuda/host/device.hpp"
#include "cuda/host/virtual_memory.hpp"

namespace ringfence::cuda {
namespace {

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

class OnOneDevice final : public SymmetricMemory {
 public:
  OnOneDevice(int device, int ranks, size_t bytes) : device_(device) {
    const DeviceScope scope(device);
    bytes_ = bytes;
    try {
      for (int r = 0; r < ranks; ++r) {
        void* p = nullptr;
        check(cudaMalloc(&p, bytes), "cudaMalloc");
        replicas_.push_back(p);
        check(cudaMemset(p, 0, bytes), "cudaMemset");
      }
      check(cudaDeviceSynchronize(), "cudaMemset");
    } catch (...) {
      release();
      throw;
    }
  }
  ~OnOneDevice() override { release(); }

 private:
  void release() {
    int before = 0;
    (void)cudaGetDevice(&before);
    (void)cudaSetDevice(device_);
    for (void* p : replicas_) (void)cudaFree(p);
    (void)cudaSetDevice(before);
  }
  int device_;
};

class Mapped final : public SymmetricMemory {
 public:
  explicit Mapped(size_t bytes) { bytes_ = bytes; }

  /// The memory may be given up at once: the mapping holds it.
  void add(const PhysicalMemory& memory, size_t granularity, const std::vector<int>& devices) {
    mappings_.emplace_back(memory.handle(), bytes_, granularity, devices);
    replicas_.push_back(mappings_.back().address());
  }

 private:
  std::vector<Mapping> mappings_;
};

void zero(void* address, size_t bytes) {
  check(cudaMemset(address, 0, bytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaMemset");
}

}  // namespace

std::unique_ptr<SymmetricMemory> SymmetricMemory::on_one_device(int device, int ranks,
                                                                size_t bytes) {
  return std::make_unique<OnOneDevice>(device, ranks, bytes);
}

std::unique_ptr<SymmetricMemory> SymmetricMemory::in_one_process(const std::vector<int>& devices,
                                                                 size_t bytes) {
  require_peer_access(devices);
  size_t granularity = 1;
  for (int device : devices) {
    const DeviceScope scope(device);
    check(cudaFree(nullptr), "the device's context");
    granularity = std::max(granularity, PhysicalMemory::granularity(device));
  }
  auto memory = std::make_unique<Mapped>(round_up(bytes, granularity));
  for (int device : devices) {
    const DeviceScope scope(device);
    memory->add(PhysicalMemory(device, memory->bytes()), granularity, devices);
    zero(memory->replica(memory->world() - 1), memory->bytes());
  }
  return memory;
}

std::unique_ptr<SymmetricMemory> SymmetricMemory::across_processes(Bootstrap& bootstrap, int device,
                                                                   size_t bytes) {
  const DeviceScope scope(device);
  check(cudaFree(nullptr), "the device's context");
  const size_t granularity = PhysicalMemory::granularity(device);
  auto memory = std::make_unique<Mapped>(round_up(bytes, granularity));
  const int rank = bootstrap.place().rank;
  const PhysicalMemory mine(device, memory->bytes());
  const int exported = mine.export_descriptor();
  std::vector<int> descriptors;
  try {
    descriptors = bootstrap.exchange_descriptor(exported);
  } catch (...) {
    close(exported);
    throw;
  }
  close(exported);
  try {
    for (int r = 0; r < bootstrap.place().size; ++r) {
      if (r == rank) {
        memory->add(mine, granularity, {device});
      } else {
        memory->add(PhysicalMemory(descriptors[static_cast<size_t>(r)]), granularity, {device});
      }
    }
    zero(memory->replica(rank), memory->bytes());
  } catch (...) {
    for (int d : descriptors) close(d);
    throw;
  }
  for (int d : descriptors) close(d);
  bootstrap.barrier();  // all replicas are zero before anybody uses them
  return memory;
}

}  // namespace ringfence::cuda

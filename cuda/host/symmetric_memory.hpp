// Memory that every rank has a replica of and that every rank can address.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cuda/host/bootstrap.hpp"

namespace ringfence::cuda {

/// One allocation a rank, zeroed. Owns what this process made: its replicas and its mappings.
class SymmetricMemory {
 public:
  virtual ~SymmetricMemory() = default;

  /// Rank r's replica, as the devices that this process drives address it.
  void* replica(int rank) const { return replicas_[static_cast<size_t>(rank)]; }
  int world() const { return static_cast<int>(replicas_.size()); }
  size_t bytes() const { return bytes_; }

  /// Virtual ranks: all replicas on one device, by plain allocations.
  static std::unique_ptr<SymmetricMemory> on_one_device(int device, int ranks, size_t bytes);

  /// One process: a replica on each device, mapped for all of them by the CUDA virtual memory calls.
  static std::unique_ptr<SymmetricMemory> in_one_process(const std::vector<int>& devices,
                                                         size_t bytes);

  /// One process a rank, collective: each makes its replica, sends it to the others as a file
  /// descriptor and maps theirs. Devices may coincide. A replica lives until the last mapping goes,
  /// so a process that ends leaves the others' accesses valid.
  static std::unique_ptr<SymmetricMemory> across_processes(Bootstrap& bootstrap, int device,
                                                           size_t bytes);

 protected:
  std::vector<void*> replicas_;
  size_t bytes_ = 0;
};

}  // namespace ringfence::cuda

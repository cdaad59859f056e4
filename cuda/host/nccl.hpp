// NCCL as a baseline, loaded at run time where it is found. ringfence needs nothing of it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

#include "cuda/host/world.hpp"

namespace ringfence::cuda {

class Nccl {
 public:
  /// Collective: a communicator for each member of the world. Throws Error(not_supported) where the
  /// library is not found (RINGFENCE_NCCL names it, else libnccl.so.2), or for virtual ranks of
  /// more than one: NCCL refuses several ranks on one GPU.
  /// id_file: where the ncclUniqueId travels by that file (id_file.hpp); empty: over the world's
  /// bootstrap, which the launcher's environment (mpirun, torchrun, srun) has set up.
  explicit Nccl(const World& world, const std::string& id_file = {});
  ~Nccl();

  std::string version() const;

  /// In place over `count` elements of each member's buffer (data[member]), on the members'
  /// streams.
  void all_reduce(void* const* data, size_t count, DataType dtype) const;
  /// Member of rank r keeps elements r * count .. of the sum, at the same place of its buffer.
  void reduce_scatter(void* const* data, size_t count, DataType dtype) const;
  void all_gather(void* const* data, size_t count, DataType dtype) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringfence::cuda

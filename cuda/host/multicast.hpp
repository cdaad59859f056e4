// A multicast address over the replicas of one process a rank. The only place in ringfence that makes
// a multicast object, and it asks the gate first.
#pragma once

#include <cstddef>
#include <memory>

#include "cuda/host/bootstrap.hpp"
#include "cuda/host/symmetric_memory.hpp"
#include "cuda/host/virtual_memory.hpp"

namespace ringfence::cuda {

/// Memory with a multicast address beside the replicas' unicast ones.
class MulticastMemory {
 public:
  /// Collective. Throws what require_multicast throws, on every rank, before any driver call.
  /// Order of set-up: every rank adds its device before any rank binds memory, and all mappings are
  /// complete before the first use; a barrier stands between each two steps.
  MulticastMemory(Transport transport, const Environment& environment, Bootstrap& bootstrap,
                  int device, size_t bytes);
  ~MulticastMemory();
  MulticastMemory(const MulticastMemory&) = delete;
  MulticastMemory& operator=(const MulticastMemory&) = delete;

  void* multicast() const;
  void* replica(int rank) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringfence::cuda

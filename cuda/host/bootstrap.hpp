// How the ranks of one host find one another: rank, size, exchange of bytes and of file descriptors.
//
// Who a process is comes from its launcher's environment (torchrun, mpirun, mpiexec, srun), so no
// library of theirs is needed. The exchange runs over a Unix socket whose name derives from the
// launcher's job: file descriptors of GPU memory can travel no other way, and GPUs that share memory
// are on one host.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/host/multicast_gate.hpp"

namespace ringfence::cuda {

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string launcher;  // "torchrun", "mpirun", "mpiexec", "srun", "fork"
  std::string job;       // the same for all ranks of a job, differs between jobs on a host
};

/// The process's place as its launcher says, in the order torchrun, Open MPI, PMI, Slurm; nothing
/// if none does. Throws Error(communication) where the variables contradict one another, and
/// Error(not_supported) where the ranks are on several hosts.
std::optional<Place> place_from_environment(const Environment& environment);

class Bootstrap {
 public:
  /// Collective over the job's processes; all must come within `timeout`. Throws
  /// Error(communication) that says who is missing.
  Bootstrap(Place place, std::chrono::milliseconds timeout);
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  const Place& place() const { return place_; }

  /// Collective. Each rank's bytes, by rank; lengths may differ.
  std::vector<std::vector<std::byte>> all_gather(const std::vector<std::byte>& mine);

  /// Collective.
  void barrier();

  /// Collective. Every rank's file descriptor, by rank, as descriptors of this process (also the own
  /// one, a duplicate). The caller closes them.
  std::vector<int> exchange_descriptor(int mine);

 private:
  void listen_and_accept();
  void connect_to_root();

  Place place_;
  std::chrono::milliseconds timeout_;
  std::vector<int> sockets_;  // rank 0: one to each rank (own place -1); others: [0] to rank 0
};

}  // namespace ringfence::cuda

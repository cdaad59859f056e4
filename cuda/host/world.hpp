// The ranks, and which of them this process drives on which device.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <vector>

#include "cuda/host/bootstrap.hpp"
#include "cuda/host/symmetric_memory.hpp"

namespace ringfence::cuda {

class World {
 public:
  enum class Kind {
    virtual_ranks,  // all ranks on one device, in this process
    one_process,    // a device a rank, all in this process
    processes,      // a process a rank
  };

  /// A rank that this process drives. The stream does not synchronise with the default stream.
  struct Member {
    int rank;
    int device;
    cudaStream_t stream;
  };

  static World virtual_ranks(int ranks, int device);
  static World one_process(const std::vector<int>& devices);
  static World process(std::unique_ptr<Bootstrap> bootstrap, int device);
  ~World();
  World(World&&) noexcept;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Kind kind() const { return kind_; }
  int size() const { return size_; }
  const std::vector<Member>& members() const { return members_; }
  /// True in exactly one process: it prints and judges.
  bool is_root() const { return members_.front().rank == 0; }
  Bootstrap* bootstrap() const { return bootstrap_.get(); }

  /// Collective.
  std::unique_ptr<SymmetricMemory> allocate(size_t bytes) const;
  /// Waits for this process's streams, then for the other processes. Throws Error(driver) where
  /// work failed.
  void barrier() const;
  void synchronize() const;
  /// Collective: the largest of all processes' values.
  double largest(double value) const;

 private:
  World(Kind kind, int size) : kind_(kind), size_(size) {}
  void add_member(int rank, int device);

  Kind kind_;
  int size_;
  std::vector<Member> members_;
  std::unique_ptr<Bootstrap> bootstrap_;
};

}  // namespace ringfence::cuda

#include "cuda/host/world.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/host/check.hpp"
#include "cuda/host/device.hpp"
#include "cuda/host/error.hpp"
#include "cuda/kernels/limits.hpp"

namespace ringfence::cuda {
namespace {

void require_size(int ranks) {
  if (ranks < 1 || ranks > kMaxRanks) {
    throw Error(ErrorCode::invalid_argument,
                std::to_string(ranks) + " ranks: use 1 to " + std::to_string(kMaxRanks));
  }
}

}  // namespace

void World::add_member(int rank, int device) {
  const DeviceScope scope(device);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  members_.push_back({rank, device, stream});
}

World World::virtual_ranks(int ranks, int device) {
  require_size(ranks);
  (void)require_device(device);
  World world(Kind::virtual_ranks, ranks);
  for (int r = 0; r < ranks; ++r) world.add_member(r, device);
  return world;
}

World World::one_process(const std::vector<int>& ordinals) {
  require_size(static_cast<int>(ordinals.size()));
  for (int d : ordinals) (void)require_device(d);
  require_peer_access(ordinals);
  World world(Kind::one_process, static_cast<int>(ordinals.size()));
  for (size_t r = 0; r < ordinals.size(); ++r) world.add_member(static_cast<int>(r), ordinals[r]);
  return world;
}

World World::process(std::unique_ptr<Bootstrap> bootstrap, int device) {
  require_size(bootstrap->place().size);
  (void)require_device(device);
  World world(Kind::processes, bootstrap->place().size);
  check(cudaSetDevice(device), "cudaSetDevice");
  world.add_member(bootstrap->place().rank, device);
  world.bootstrap_ = std::move(bootstrap);
  return world;
}

World::World(World&& other) noexcept
    : kind_(other.kind_),
      size_(other.size_),
      members_(std::move(other.members_)),
      bootstrap_(std::move(other.bootstrap_)) {
  other.members_.clear();
}

World::~World() {
  for (const Member& m : members_) (void)cudaStreamDestroy(m.stream);
}

std::unique_ptr<SymmetricMemory> World::allocate(size_t bytes) const {
  bytes = std::max<size_t>(bytes, 256);
  if (kind_ == Kind::virtual_ranks) {
    return SymmetricMemory::on_one_device(members_.front().device, size_, bytes);
  }
  if (kind_ == Kind::one_process) {
    std::vector<int> ordinals;
    for (const Member& m : members_) ordinals.push_back(m.device);
    return SymmetricMemory::in_one_process(ordinals, bytes);
  }
  return SymmetricMemory::across_processes(*bootstrap_, members_.front().device, bytes);
}

void World::synchronize() const {
  for (const Member& m : members_) {
    const DeviceScope scope(m.device);
    check(cudaStreamSynchronize(m.stream), "the kernels");
  }
}

void World::barrier() const {
  synchronize();
  if (bootstrap_) bootstrap_->barrier();
}

double World::largest(double value) const {
  if (!bootstrap_) return value;
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  for (const auto& other : bootstrap_->all_gather(bytes)) {
    double theirs = 0;
    std::memcpy(&theirs, other.data(), sizeof theirs);
    value = std::max(value, theirs);
  }
  return value;
}

}  // namespace ringfence::cuda

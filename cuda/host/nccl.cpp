#include "cuda/host/nccl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/host/check.hpp"
#include "cuda/host/error.hpp"
#include "cuda/host/id_file.hpp"

namespace ringfence::cuda {
namespace {

// What is used of NCCL's C interface, as documented; declared here so that no header is needed.
using Comm = void*;
struct UniqueId {
  char internal[128];
};
constexpr int kSum = 0;
constexpr int kFloat16 = 6;
constexpr int kBfloat16 = 9;

int type_of(DataType dtype) { return dtype == DataType::bf16 ? kBfloat16 : kFloat16; }

}  // namespace

struct Nccl::State {
  void* library = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(UniqueId*) = nullptr;
  int (*comm_init_rank)(Comm*, int, UniqueId, int) = nullptr;
  int (*comm_destroy)(Comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int, int, Comm, cudaStream_t) = nullptr;
  int (*reduce_scatter)(const void*, void*, size_t, int, int, Comm, cudaStream_t) = nullptr;
  int (*all_gather)(const void*, void*, size_t, int, Comm, cudaStream_t) = nullptr;
  std::vector<Comm> comms;
  std::vector<World::Member> members;

  template <class F>
  void load(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (function == nullptr) {
      throw Error(ErrorCode::not_supported, fmt::format("NCCL has no {}", name));
    }
  }
  void check_nccl(int result, const char* what) const {
    if (result != 0) {
      throw Error(ErrorCode::driver, fmt::format("{}: {}", what, error_string(result)));
    }
  }
  ~State() {
    for (Comm c : comms) (void)comm_destroy(c);
    // The library stays loaded: it has threads of its own.
  }
};

Nccl::Nccl(const World& world, const std::string& id_file) : state_(std::make_unique<State>()) {
  State& s = *state_;
  if (world.kind() == World::Kind::virtual_ranks && world.size() > 1) {
    throw Error(ErrorCode::not_supported, "NCCL refuses several ranks on one GPU");
  }
  const char* named = std::getenv("RINGFENCE_NCCL");
  const char* file = named != nullptr ? named : "libnccl.so.2";
  s.library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (s.library == nullptr) {
    throw Error(ErrorCode::not_supported,
                fmt::format("{} is not found: set RINGFENCE_NCCL to its path", file));
  }
  s.load(s.error_string, "ncclGetErrorString");
  s.load(s.get_version, "ncclGetVersion");
  s.load(s.get_unique_id, "ncclGetUniqueId");
  s.load(s.comm_init_rank, "ncclCommInitRank");
  s.load(s.comm_destroy, "ncclCommDestroy");
  s.load(s.group_start, "ncclGroupStart");
  s.load(s.group_end, "ncclGroupEnd");
  s.load(s.all_reduce, "ncclAllReduce");
  s.load(s.reduce_scatter, "ncclReduceScatter");
  s.load(s.all_gather, "ncclAllGather");
  s.members = world.members();

  UniqueId id{};
  if (world.is_root()) s.check_nccl(s.get_unique_id(&id), "ncclGetUniqueId");
  const bool by_file = !id_file.empty() && world.kind() == World::Kind::processes;
  const int rank = world.members().front().rank;
  if (by_file || world.bootstrap() != nullptr) {
    std::vector<std::byte> bytes(sizeof id);
    std::memcpy(bytes.data(), &id, sizeof id);
    bytes = by_file ? share_id(id_file, rank, bytes, std::chrono::milliseconds(60000))
                    : world.bootstrap()->all_gather(bytes)[0];
    std::memcpy(&id, bytes.data(), sizeof id);
  }
  std::vector<Comm> comms(s.members.size(), nullptr);
  s.check_nccl(s.group_start(), "ncclGroupStart");
  for (size_t i = 0; i < s.members.size(); ++i) {
    const DeviceScope scope(s.members[i].device);
    s.check_nccl(s.comm_init_rank(&comms[i], world.size(), id, s.members[i].rank),
                 "ncclCommInitRank");
  }
  s.check_nccl(s.group_end(), "ncclGroupEnd");
  s.comms = std::move(comms);
  if (by_file) remove_id(id_file, rank);  // all have read it, or they would not have joined
}

Nccl::~Nccl() = default;

std::string Nccl::version() const {
  int v = 0;
  state_->check_nccl(state_->get_version(&v), "ncclGetVersion");
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

void Nccl::all_reduce(void* const* data, size_t count, DataType dtype) const {
  const State& s = *state_;
  s.check_nccl(s.group_start(), "ncclGroupStart");
  for (size_t i = 0; i < s.members.size(); ++i) {
    s.check_nccl(s.all_reduce(data[i], data[i], count, type_of(dtype), kSum, s.comms[i],
                              s.members[i].stream),
                 "ncclAllReduce");
  }
  s.check_nccl(s.group_end(), "ncclGroupEnd");
}

void Nccl::reduce_scatter(void* const* data, size_t count, DataType dtype) const {
  const State& s = *state_;
  s.check_nccl(s.group_start(), "ncclGroupStart");
  for (size_t i = 0; i < s.members.size(); ++i) {
    char* own = static_cast<char*>(data[i]) + static_cast<size_t>(s.members[i].rank) * count * 2;
    s.check_nccl(s.reduce_scatter(data[i], own, count, type_of(dtype), kSum, s.comms[i],
                                  s.members[i].stream),
                 "ncclReduceScatter");
  }
  s.check_nccl(s.group_end(), "ncclGroupEnd");
}

void Nccl::all_gather(void* const* data, size_t count, DataType dtype) const {
  const State& s = *state_;
  s.check_nccl(s.group_start(), "ncclGroupStart");
  for (size_t i = 0; i < s.members.size(); ++i) {
    const char* own =
        static_cast<const char*>(data[i]) + static_cast<size_t>(s.members[i].rank) * count * 2;
    s.check_nccl(s.all_gather(own, data[i], count, type_of(dtype), s.comms[i], s.members[i].stream),
                 "ncclAllGather");
  }
  s.check_nccl(s.group_end(), "ncclGroupEnd");
}

}  // namespace ringfence::cuda

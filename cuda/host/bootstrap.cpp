#include "cuda/host/bootstrap.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "cuda/host/error.hpp"

namespace ringfence::cuda {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::communication, message);
}

int number(const Environment& environment, const char* name) {
  const std::optional<std::string> text = environment(name);
  if (!text) fail(fmt::format("{} is not set, but its companions are", name));
  try {
    size_t used = 0;
    const int value = std::stoi(*text, &used);
    if (used == text->size()) return value;
  } catch (const std::exception&) {
  }
  fail(fmt::format("{}={}: a whole number was expected", name, *text));
}

/// The variables of one launcher.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;  // or the number of nodes, where local_is_nodes
  bool local_is_nodes;
  const char* job[2];
};

constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false,
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT"}},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", false, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", false,
     {"PMI_JOBID", "HYDI_CONTROL_FD"}},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_NUM_NODES", true,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

sockaddr_un address_of(const Place& place, socklen_t& length) {
  // Abstract namespace (leading zero byte): nothing is left in the file system.
  const std::string name = fmt::format("ringfence-{}-{}-{}", getuid(), place.launcher, place.job);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) fail("the launcher's job name is too long");
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

void wait_ready(int socket, short events, Clock::time_point deadline, int rank) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) fail(fmt::format("rank {} did not answer in time", rank));
    pollfd descriptor{socket, events, 0};
    const int ready = poll(&descriptor, 1, static_cast<int>(left));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) fail(fmt::format("poll: {}", std::strerror(errno)));
  }
}

void send_all(int socket, const void* data, size_t bytes, Clock::time_point deadline, int rank) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    wait_ready(socket, POLLOUT, deadline, rank);
    const ssize_t n = send(socket, p, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(fmt::format("rank {} has gone: {}", rank, std::strerror(errno)));
    p += n;
    bytes -= static_cast<size_t>(n);
  }
}

void receive_all(int socket, void* data, size_t bytes, Clock::time_point deadline, int rank) {
  char* p = static_cast<char*>(data);
  while (bytes > 0) {
    wait_ready(socket, POLLIN, deadline, rank);
    const ssize_t n = recv(socket, p, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(fmt::format("rank {} has gone", rank));
    p += n;
    bytes -= static_cast<size_t>(n);
  }
}

void send_bytes(int socket, const std::vector<std::byte>& bytes, Clock::time_point deadline,
                int rank) {
  const uint64_t count = bytes.size();
  send_all(socket, &count, sizeof count, deadline, rank);
  send_all(socket, bytes.data(), bytes.size(), deadline, rank);
}

std::vector<std::byte> receive_bytes(int socket, Clock::time_point deadline, int rank) {
  uint64_t count = 0;
  receive_all(socket, &count, sizeof count, deadline, rank);
  if (count > (uint64_t{1} << 32)) fail(fmt::format("rank {} sent nonsense", rank));
  std::vector<std::byte> bytes(count);
  receive_all(socket, bytes.data(), count, deadline, rank);
  return bytes;
}

void send_descriptor(int socket, int descriptor, Clock::time_point deadline, int rank) {
  wait_ready(socket, POLLOUT, deadline, rank);
  char byte = 'd';
  iovec vector{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1) {
    fail(fmt::format("a descriptor could not be sent to rank {}: {}", rank, std::strerror(errno)));
  }
}

int receive_descriptor(int socket, Clock::time_point deadline, int rank) {
  wait_ready(socket, POLLIN, deadline, rank);
  char byte = 0;
  iovec vector{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) {
    fail(fmt::format("rank {} has gone", rank));
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    fail(fmt::format("rank {} sent no descriptor", rank));
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return descriptor;
}

/// Only processes of the same user may join.
void require_same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != getuid()) {
    fail("a process of another user tried to join");
  }
}

}  // namespace

std::optional<Place> place_from_environment(const Environment& environment) {
  for (const Launcher& l : kLaunchers) {
    if (!environment(l.rank) || !environment(l.size)) continue;
    Place place;
    place.launcher = l.name;
    place.rank = number(environment, l.rank);
    place.size = number(environment, l.size);
    place.local_rank = environment(l.local_rank) ? number(environment, l.local_rank) : place.rank;
    if (place.size < 1 || place.rank < 0 || place.rank >= place.size) {
      fail(fmt::format("{}={} is not a rank of {}={}", l.rank, place.rank, l.size, place.size));
    }
    if (environment(l.local_size)) {
      const int local = number(environment, l.local_size);
      if (l.local_is_nodes ? local != 1 : local != place.size) {
        throw Error(ErrorCode::not_supported,
                    fmt::format("{}: the ranks are on several hosts ({}={}): start all on one",
                                l.name, l.local_size, local));
      }
    }
    for (const char* variable : l.job) {
      if (const std::optional<std::string> value = environment(variable)) {
        place.job += (place.job.empty() ? "" : ".") + *value;
      }
    }
    if (place.job.empty()) place.job = fmt::format("parent{}", getppid());
    return place;
  }
  return std::nullopt;
}

Bootstrap::Bootstrap(Place place, std::chrono::milliseconds timeout)
    : place_(std::move(place)), timeout_(timeout) {
  if (place_.size == 1) return;
  if (place_.rank == 0) {
    listen_and_accept();
  } else {
    connect_to_root();
  }
}

Bootstrap::~Bootstrap() {
  for (int socket : sockets_) {
    if (socket >= 0) close(socket);
  }
}

void Bootstrap::listen_and_accept() {
  const auto deadline = Clock::now() + timeout_;
  sockets_.assign(static_cast<size_t>(place_.size), -1);
  socklen_t length = 0;
  const sockaddr_un address = address_of(place_, length);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) fail(fmt::format("socket: {}", std::strerror(errno)));
  const auto close_and_fail = [&](const std::string& message) {
    close(listener);
    fail(message);
  };
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener, place_.size) != 0) {
    close_and_fail(fmt::format("job '{}' cannot be started twice: {}", place_.job,
                               std::strerror(errno)));
  }
  for (int missing = place_.size - 1; missing > 0;) {
    pollfd descriptor{listener, POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || poll(&descriptor, 1, static_cast<int>(left)) <= 0) {
      std::string who;
      for (int r = 1; r < place_.size; ++r) {
        if (sockets_[static_cast<size_t>(r)] < 0) who += fmt::format(" {}", r);
      }
      close_and_fail("these ranks did not come:" + who);
    }
    const int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) continue;
    try {
      require_same_user(peer);
      int rank = -1;
      receive_all(peer, &rank, sizeof rank, deadline, rank);
      if (rank < 1 || rank >= place_.size || sockets_[static_cast<size_t>(rank)] >= 0) {
        fail(fmt::format("two processes say that they are rank {}", rank));
      }
      sockets_[static_cast<size_t>(rank)] = peer;
      --missing;
    } catch (...) {
      close(peer);
      close(listener);
      throw;
    }
  }
  close(listener);
}

void Bootstrap::connect_to_root() {
  const auto deadline = Clock::now() + timeout_;
  socklen_t length = 0;
  const sockaddr_un address = address_of(place_, length);
  for (;;) {
    const int root = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (root < 0) fail(fmt::format("socket: {}", std::strerror(errno)));
    if (connect(root, reinterpret_cast<const sockaddr*>(&address), length) == 0) {
      sockets_ = {root};
      require_same_user(root);
      send_all(root, &place_.rank, sizeof place_.rank, deadline, 0);
      return;
    }
    close(root);
    if (Clock::now() > deadline) fail("rank 0 did not come");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // rank 0 is not listening yet
  }
}

std::vector<std::vector<std::byte>> Bootstrap::all_gather(const std::vector<std::byte>& mine) {
  const auto deadline = Clock::now() + timeout_;
  std::vector<std::vector<std::byte>> all(static_cast<size_t>(place_.size));
  all[static_cast<size_t>(place_.rank)] = mine;
  if (place_.size == 1) return all;
  if (place_.rank == 0) {
    for (int r = 1; r < place_.size; ++r) {
      all[static_cast<size_t>(r)] = receive_bytes(sockets_[static_cast<size_t>(r)], deadline, r);
    }
    for (int r = 1; r < place_.size; ++r) {
      for (const auto& bytes : all) {
        send_bytes(sockets_[static_cast<size_t>(r)], bytes, deadline, r);
      }
    }
  } else {
    send_bytes(sockets_[0], mine, deadline, 0);
    for (auto& bytes : all) bytes = receive_bytes(sockets_[0], deadline, 0);
  }
  return all;
}

void Bootstrap::barrier() { (void)all_gather({}); }

std::vector<int> Bootstrap::exchange_descriptor(int mine) {
  const auto deadline = Clock::now() + timeout_;
  std::vector<int> all(static_cast<size_t>(place_.size), -1);
  all[static_cast<size_t>(place_.rank)] = dup(mine);
  if (place_.size == 1) return all;
  if (place_.rank == 0) {
    for (int r = 1; r < place_.size; ++r) {
      all[static_cast<size_t>(r)] =
          receive_descriptor(sockets_[static_cast<size_t>(r)], deadline, r);
    }
    for (int r = 1; r < place_.size; ++r) {
      for (int owner = 0; owner < place_.size; ++owner) {
        if (owner != r) {
          send_descriptor(sockets_[static_cast<size_t>(r)], all[static_cast<size_t>(owner)],
                          deadline, r);
        }
      }
    }
  } else {
    send_descriptor(sockets_[0], mine, deadline, 0);
    for (int owner = 0; owner < place_.size; ++owner) {
      if (owner != place_.rank) {
        all[static_cast<size_t>(owner)] = receive_descriptor(sockets_[0], deadline, 0);
      }
    }
  }
  return all;
}

}  // namespace ringfence::cuda

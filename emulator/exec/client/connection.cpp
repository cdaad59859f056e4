#include "emulator/exec/client/connection.hpp"

#include "emulator/exec/client/watch.hpp"

#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

namespace ringfence::exec::client {
namespace {

constexpr std::uintptr_t kFirst = 0x1000000000, kBytes = std::uintptr_t{1} << 40;

struct Connection {
  std::mutex mutex;
  int socket = -1;
  pid_t process = 0;  // that opened it
  int devices = 0;
  Devices like;
  bool failed = false;
};

// Never destroyed: programs call on in destructors of their own.
Connection& connection() {
  static Connection* const one = new Connection;
  return *one;
}

std::atomic<std::uint32_t> threads{0};
std::atomic<std::uint64_t> calls{0};
// The thread that watches is none of the program's.
thread_local bool watching = false;
std::uint32_t thread_number() {
  thread_local const std::uint32_t number = watching ? 0 : threads++;
  return number;
}
thread_local int device = 0;
thread_local Error last = kSuccess;

bool fail(Connection& c, const char* why) {
  if (!c.failed) std::fprintf(stderr, "ringfence: libcudart: %s\n", why);
  c.failed = true;
  return false;
}

bool exchange(Connection& c, const std::string& request, std::string& reply) {
  return send_frame(c.socket, request) && receive_frame(c.socket, reply);
}

// The mutex is held.
bool open(Connection& c) {
  if (c.process == getpid()) return !c.failed;
  if (c.process != 0) return fail(c, "a forked process calls CUDA; exec runs one process");
  c.process = getpid();
  const char* const path = std::getenv(kSocketVariable);
  if (path == nullptr) return fail(c, "no engine: run the program with ringfence exec");
  void* const there =
      mmap(reinterpret_cast<void*>(kFirst), kBytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (there != reinterpret_cast<void*>(kFirst)) {
    return fail(c, "the addresses of device memory (0x1000000000 on) are in use");
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path)
    return fail(c, "the engine's socket's path is too long");
  std::strcpy(address.sun_path, path);
  c.socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (c.socket < 0 ||
      ::connect(c.socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail(c, "the engine does not answer");
  }
  Request request;
  request.call = Call::hello;
  std::string reply;
  if (!exchange(c, Out().put(request).put(kWireVersion).bytes(), reply)) {
    return fail(c, "the engine does not answer");
  }
  In in(reply);
  if (in.get<Reply>().status != kSuccess) return fail(c, "the engine refused the program");
  c.devices = static_cast<int>(in.get<std::uint32_t>());
  c.like.facts = in.get<DeviceFacts>();
  for (std::uint32_t i = 0; i < c.like.facts.attributes; ++i) {
    const auto number = in.get<std::int32_t>();
    c.like.attributes[number] = in.get<std::int32_t>();
  }
  return true;
}

// What the host has accessed before this call. The mutex is held.
void tell_accesses(Connection& c) {
  const std::vector<HostAccess> accesses = take_accesses();
  if (accesses.empty()) return;
  Request request;
  request.call = Call::touched;
  Out out;
  out.put(request).put(static_cast<std::uint32_t>(accesses.size()));
  for (const HostAccess& a : accesses) out.put(a);
  std::string reply;
  exchange(c, out.bytes(), reply);
}

struct Callback {
  void (*function)(void*);
  void* argument;
};

}  // namespace

Answer ask(Call call, Handle stream, const Out& payload) {
  using Clock = std::chrono::steady_clock;
  // How long another thread may take to bring what a wait needs.
  constexpr std::chrono::seconds kPatience{10};
  const Clock::time_point began = Clock::now();
  Connection& c = connection();
  for (;;) {
    Request request;
    request.call = call;
    request.device = static_cast<std::uint32_t>(device);
    request.stream = reinterpret_cast<std::uintptr_t>(stream);
    request.thread = thread_number();
    if (!watching) ++calls;
    request.last_word = threads <= 1 || Clock::now() - began > kPatience ? 1 : 0;
    Answer answer;
    Reply reply;
    std::vector<Callback> callbacks;
    {
      const std::lock_guard lock(c.mutex);
      if (!open(c)) return {100, {}};  // cudaErrorNoDevice
      if (!watching) tell_accesses(c);
      std::string bytes;
      if (!exchange(c, Out().put(request).bytes() + payload.bytes(), bytes)) {
        fail(c, "the engine is gone");
        return {kUnknown, {}};
      }
      In in(bytes);
      reply = in.get<Reply>();
      for (std::uint32_t i = 0; i < reply.writes; ++i) {
        auto* const to = reinterpret_cast<void*>(in.get<std::uintptr_t>());
        const std::string_view content = in.blob();
        std::memcpy(to, content.data(), content.size());
      }
      for (std::uint32_t i = 0; i < reply.callbacks; ++i) {
        Callback callback;
        callback.function = reinterpret_cast<void (*)(void*)>(in.get<std::uintptr_t>());
        callback.argument = reinterpret_cast<void*>(in.get<std::uintptr_t>());
        callbacks.push_back(callback);
      }
      answer.status = reply.status;
      answer.bytes = std::string(in.blob());
      // A callback comes in its stream's turn: what it accesses is no access of the host beside it.
      guard(reply.busy != 0 && callbacks.empty());
    }
    for (const Callback& callback : callbacks) callback.function(callback.argument);
    if (reply.again == 0) return answer;
    if (callbacks.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int device_count() {
  Connection& c = connection();
  const std::lock_guard lock(c.mutex);
  return open(c) ? c.devices : 0;
}

const Devices& devices() {
  static_cast<void>(device_count());
  return connection().like;
}

int current_device() { return device; }
void set_current_device(int d) { device = d; }

Error keep(Error error) {
  if (error != kSuccess && error != kNotReady) last = error;
  return error;
}

Error take_last(bool clear) {
  const Error error = last;
  if (clear) last = kSuccess;
  return error;
}

Error refuse(std::string_view what) {
  ask(Call::refused, nullptr, Out().blob(what));
  return keep(kNotSupported);
}

void watch_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::thread([] {
      watching = true;
      std::uint64_t before = 0;
      for (;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        const std::uint64_t now = calls;
        if (now == before) ask(Call::step);
        before = now;
      }
    }).detach();
  });
}

bool on_device(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) - kFirst < kBytes;
}

}  // namespace ringfence::exec::client

#include "emulator/exec/session.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "emulator/analysis/errors.hpp"
#include "emulator/exec/program_file.hpp"
#include "emulator/exec/wire.hpp"
#include "emulator/schedule/interrupt.hpp"

extern char** environ;

namespace ringfence::exec {
namespace {

namespace fs = std::filesystem;

using analysis::InputError;

constexpr const char* kLibrary = "libcudart.so.13";

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// A folder of the session's own, gone with it.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "ringfence-exec-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw InputError(fmt::format("exec: no temporary folder: {}", std::strerror(errno)));
    }
    path_ = name;
  }
  ~Folder() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw InputError(fmt::format("exec: the temporary folder's path is too long: {}", path));
  }
  std::strcpy(address.sun_path, path.c_str());
  const int s = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0 || ::bind(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(s, 8) != 0) {
    throw InputError(fmt::format("exec: no socket at {}: {}", path, std::strerror(errno)));
  }
  return s;
}

std::vector<std::string> environment(const std::string& library, const std::string& socket) {
  std::vector<std::string> out;
  std::string folders = library;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view one(*e);
    constexpr std::string_view kPath = "LD_LIBRARY_PATH=";
    if (one.starts_with(kPath)) {
      if (one.size() > kPath.size()) folders += ":" + std::string(one.substr(kPath.size()));
    } else if (!one.starts_with(std::string(kSocketVariable) + "=")) {
      out.emplace_back(one);
    }
  }
  out.push_back("LD_LIBRARY_PATH=" + folders);
  out.push_back(std::string(kSocketVariable) + "=" + socket);
  return out;
}

pid_t start(const std::string& path, const std::vector<std::string>& command,
            const std::vector<std::string>& variables) {
  std::vector<char*> argv, envp;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& v : variables) envp.push_back(const_cast<char*>(v.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // The signals that this program handles are the program's own.
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, path.c_str(), nullptr, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    throw InputError(fmt::format("exec: {} cannot be started: {}", path, std::strerror(failed)));
  }
  return child;
}

// A signal to this process alone (a terminal sends it to both) ends the program too.
void end(pid_t child, int ended) {
  constexpr int kMilliseconds = 200;
  pollfd wait{ended, POLLIN, 0};
  if (ended < 0 || poll(&wait, 1, kMilliseconds) != 1) kill(child, SIGKILL);
}

// Answers what the program asks, until it has ended.
int serve(Engine& engine, int listener, pid_t child) {
  const Descriptor ended(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  int client = -1;
  std::string frame;
  for (;;) {
    pollfd waits[3] = {{listener, POLLIN, 0}, {ended.number(), POLLIN, 0}, {client, POLLIN, 0}};
    const int ready = poll(waits, 3, ended.number() < 0 ? 50 : 250);
    if (schedule::interrupted()) {
      end(child, ended.number());
      break;
    }
    if (ready < 0 && errno != EINTR) break;
    if (ready <= 0) {
      for (pollfd& w : waits) w.revents = 0;
    }
    if ((waits[2].revents & (POLLIN | POLLHUP)) != 0) {
      if (receive_frame(client, frame)) {
        send_frame(client, engine.answer(frame));
      } else {
        close(client);
        client = -1;
      }
      continue;
    }
    if ((waits[0].revents & POLLIN) != 0) {
      const int next = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (next >= 0 && client >= 0) {
        // A second process: its first question has this answer.
        Reply refusal;
        refusal.status = kNotSupported;
        if (receive_frame(next, frame)) send_frame(next, Out().put(refusal).bytes());
        close(next);
      } else if (next >= 0) {
        client = next;
      }
      continue;
    }
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (client >= 0) close(client);
      return status;
    }
  }
  if (client >= 0) close(client);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

std::string library_folder() {
  std::error_code none;
  if (const char* const given = std::getenv("RINGFENCE_EXEC_LIBRARY")) return given;
  const fs::path self = fs::read_symlink("/proc/self/exe", none).parent_path();
  for (const char* place : {"../exec/client", "../lib/ringfence", "cudart"}) {
    const fs::path folder = self / place;
    if (fs::exists(folder / kLibrary, none)) return fs::canonical(folder, none).string();
  }
  return {};
}

Ended run(const Session& session) {
  const std::string path = find_program(session.command.front());
  if (path.empty()) {
    throw InputError(fmt::format("exec: {}: no program of that name", session.command.front()));
  }
  if (const std::string why = why_not(path, read_program(path)); !why.empty()) {
    throw InputError("exec: " + why);
  }
  const Folder folder;
  const Descriptor listener(listen_at(folder.path() + "/engine"));
  EngineOptions options = session.engine;
  options.folder = folder.path();
  Engine engine(std::move(options));
  const pid_t child =
      start(path, session.command, environment(session.library, folder.path() + "/engine"));
  Ended out;
  out.status = serve(engine, listener.number(), child);
  out.summary = engine.summary();
  return out;
}

}  // namespace ringfence::exec

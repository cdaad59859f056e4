#include "tests/exec/opened.hpp"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace ringfence::tests {
namespace {

std::string text_at(pid_t process, std::uint64_t address) {
  std::string out;
  char page[4096];
  while (out.size() < sizeof page) {
    const std::size_t left = sizeof page - address % sizeof page;
    const iovec here{page, left}, there{reinterpret_cast<void*>(address), left};
    const ssize_t got = process_vm_readv(process, &here, 1, &there, 1, 0);
    if (got <= 0) break;
    const std::string_view piece(page, static_cast<std::size_t>(got));
    const std::size_t end = piece.find('\0');
    out.append(piece.substr(0, end));
    if (end != std::string_view::npos) break;
    address += static_cast<std::uint64_t>(got);
  }
  return out;
}

// The path of a call that opens something; empty: it is another call.
std::string path_of(pid_t process) {
#ifdef __x86_64__
  user_regs_struct r{};
  if (ptrace(PTRACE_GETREGS, process, nullptr, &r) != 0) return {};
  switch (r.orig_rax) {
    case SYS_open:
    case SYS_creat:
      return text_at(process, r.rdi);
    case SYS_openat:
    case SYS_openat2:
      return text_at(process, r.rsi);
    default:
      return {};
  }
#else
  static_cast<void>(process);
  return {};
#endif
}

[[noreturn]] void become(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, 1);
  dup2(nowhere, 2);
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(126);
  raise(SIGSTOP);
  execv(argv[0], argv.data());
  _exit(127);
}

}  // namespace

Opened opened_by(const std::vector<std::string>& command) {
  Opened out;
  const pid_t child = fork();
  if (child == 0) become(command);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return out;
#ifdef __x86_64__
  out.traced = true;
#endif
  constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                            PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  ptrace(PTRACE_SETOPTIONS, child, nullptr, kOptions);
  ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  for (;;) {
    const pid_t who = waitpid(-1, &status, __WALL);
    if (who < 0 && errno == EINTR) continue;
    if (who < 0) return out;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (who == child) out.status = status;
      continue;
    }
    const int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      if (std::string path = path_of(who); !path.empty()) out.paths.insert(std::move(path));
    }
    // Its own signals are handed on; those of tracing are not.
    const bool own = signal != (SIGTRAP | 0x80) && signal != SIGTRAP && signal != SIGSTOP;
    ptrace(PTRACE_SYSCALL, who, nullptr, own ? signal : 0);
  }
}

}  // namespace ringfence::tests

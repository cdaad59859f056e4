#pragma once
// What the tests let rank processes tell the test: plain counters in memory that all share.

#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace ringfence::testing {

struct Counters {
  std::atomic<std::uint64_t> at[64] = {};
};

class SharedCounters {
 public:
  SharedCounters()
      : counters_(::new (mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Counters) {}
  ~SharedCounters() { munmap(counters_, sizeof(Counters)); }
  SharedCounters(const SharedCounters&) = delete;
  std::atomic<std::uint64_t>& operator[](std::size_t i) { return counters_->at[i]; }

 private:
  Counters* counters_;
};

// Children of `parent` (default: this process), in no order.
inline std::vector<pid_t> children_of(pid_t parent = getpid()) {
  std::vector<pid_t> found;
  std::ifstream in("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                   "/children");
  for (pid_t pid; in >> pid;) found.push_back(pid);
  return found;
}

// The state letter of a process, or 0 if there is none: R, S, T (stopped), Z (dead, not reaped).
inline char state_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(in, line)) return 0;
  return line[line.rfind(')') + 2];
}

inline std::string command_line_of(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/cmdline");
  std::stringstream all;
  all << in.rdbuf();
  return all.str().c_str();  // up to the first zero
}

template <class F>
bool eventually(F&& holds, std::chrono::milliseconds within = std::chrono::seconds(5)) {
  const auto until = std::chrono::steady_clock::now() + within;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace ringfence::testing

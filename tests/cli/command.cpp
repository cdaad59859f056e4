#include "tests/cli/command.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

namespace ringfence::cli {

namespace fs = std::filesystem;

namespace {

std::atomic<int> folders{0};

// Processes of group `group` that are more than a zombie.
std::vector<pid_t> living(pid_t group) {
  std::vector<pid_t> pids;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (entry.path().filename().string().find_first_not_of("0123456789") != std::string::npos)
      continue;
    const std::string stat = content(entry.path() / "stat");
    // "pid (name) state ppid pgrp ...", and the name may hold anything.
    const std::size_t close = stat.rfind(')');
    if (close == std::string::npos) continue;
    std::istringstream fields(stat.substr(close + 1));
    char state = 0;
    pid_t parent = 0, its_group = 0;
    if (fields >> state >> parent >> its_group && its_group == group && state != 'Z') {
      pids.push_back(std::stoi(entry.path().filename().string()));
    }
  }
  return pids;
}

}  // namespace

Folder::Folder()
    : path_(fs::temp_directory_path() /
            ("ringfence-cli-" + std::to_string(::getpid()) + "-" + std::to_string(folders++))) {
  fs::create_directories(path_);
}

Folder::~Folder() { fs::remove_all(path_); }

std::vector<std::string> Folder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("output-", 0) != 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Command::Command(const Folder& folder, const std::string& arguments)
    : out_(folder / ("output-" + std::to_string(folders) + "-out")),
      err_(folder / ("output-" + std::to_string(folders) + "-err")) {
  ++folders;
  std::vector<std::string> words{RINGFENCE_BINARY};
  std::istringstream in(arguments);
  for (std::string word; in >> word;) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    const int out = ::open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err = ::open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(out, 1);
    ::dup2(err, 2);
    if (::chdir(folder.path().c_str()) == 0) ::execv(RINGFENCE_BINARY, argv.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);
}

Command::~Command() {
  ::kill(-pid_, SIGKILL);
  if (!ended_) ::waitpid(pid_, nullptr, 0);
}

void Command::signal(int number) const { ::kill(pid_, number); }

Result Command::wait() {
  int status = 0;
  REQUIRE(::waitpid(pid_, &status, 0) == pid_);
  ended_ = true;
  Result r;
  r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  r.out = content(out_);
  r.err = content(err_);
  return r;
}

bool Command::left_behind(std::chrono::milliseconds patience) const {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!living(pid_).empty()) {
    if (std::chrono::steady_clock::now() > end) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

std::size_t Command::processes() const { return living(pid_).size(); }

pid_t Command::rank(int number) const {
  for (pid_t pid : living(pid_)) {
    const std::string title = content("/proc/" + std::to_string(pid) + "/cmdline");
    if (title.c_str() == "ringfence rank " + std::to_string(number)) return pid;
  }
  return -1;
}

Result ringfence(const Folder& folder, const std::string& arguments) {
  Command command(folder, arguments);
  Result r = command.wait();
  CHECK_MESSAGE(!command.left_behind(), "a process is left of: ringfence ", arguments);
  return r;
}

std::string content(const std::string& path) {
  // By a stream's own operator: a buffer's iterators throw where a process of /proc ends meanwhile.
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

nlohmann::json json_of(const std::string& path) { return nlohmann::json::parse(content(path)); }

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace ringfence::cli

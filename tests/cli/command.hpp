#pragma once
// Runs the built ringfence as a user does: a process of its own, in a folder of its own.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ringfence::cli {

// A folder that goes when the test ends.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> files() const;  // names, sorted

 private:
  std::filesystem::path path_;
};

struct Result {
  int status = -1;  // exit status; 128 + signal if it was killed
  std::string out, err;
};

// A command that runs; the destructor kills it with all that it started.
class Command {
 public:
  // `arguments` are split at blanks. In `folder`.
  Command(const Folder& folder, const std::string& arguments);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  void signal(int number) const;
  // Blocks until it ends. What it printed is in the result.
  Result wait();
  // Whether a process of its group is left, after `patience` at most.
  bool left_behind(std::chrono::milliseconds patience = std::chrono::seconds(3)) const;
  std::size_t processes() const;  // of its group, itself included
  pid_t rank(int number) const;   // the process of a rank, by its title; -1 if there is none

 private:
  std::string out_, err_;  // files
  pid_t pid_ = -1;
  bool ended_ = false;
};

// From start to end; checks that it leaves no process behind.
Result ringfence(const Folder& folder, const std::string& arguments);

std::string content(const std::string& path);
nlohmann::json json_of(const std::string& path);
std::size_t lines(const std::string& text);

}  // namespace ringfence::cli

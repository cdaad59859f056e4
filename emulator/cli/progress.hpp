#pragma once
// How far a long command is, on standard error: a line that rewrites itself on a terminal, a quiet
// line at growing intervals elsewhere.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "emulator/analysis/watch.hpp"

namespace ringfence::cli {

// Whether stream `fd` should have colours: it is a terminal that can, and NO_COLOR is not set.
bool wants_color(int fd);

// Progress as JSON instead, a line each tenth of a second, for a program that shows it itself.
void set_json_progress();

// A share of something that is not done, for people: never 100 %.
std::string percent(double share);

class Progress {
 public:
  // `of`: 0 if the end is not known.
  Progress(std::string what, std::uint64_t of) : Progress(std::move(what), "schedules", of) {}
  Progress(std::string what, std::string unit, std::uint64_t of);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void at(std::uint64_t done, double seconds, const std::string& more = {});

 private:
  std::string what_, unit_;
  std::uint64_t of_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::seconds interval_{5};
  std::chrono::steady_clock::time_point next_line_;  // begins from interval_
};

// The progress of an analysis, mode by mode, and what it says of itself.
class ShownProgress {
 public:
  explicit ShownProgress(std::string unit) : unit_(std::move(unit)) {}
  // As long as this lives.
  analysis::Watch watch();

 private:
  std::string unit_;
  std::optional<Progress> progress_, remedies_;
};

}  // namespace ringfence::cli

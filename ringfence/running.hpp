#pragma once
// While an analysis of the library runs: the only one of the process, ended by its caller's token.
// Not installed.

#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "emulator/schedule/interrupt.hpp"

namespace ringfence::detail {

// The flags that end a run (emulator/schedule/interrupt.hpp) are the process's.
inline std::mutex& one_at_a_time() {
  static std::mutex mutex;
  return mutex;
}

class Running {
 public:
  explicit Running(std::stop_token stop) : lock_(one_at_a_time()), stop_(std::move(stop)) {
    on_stop_.emplace(stop_, Interrupt{});
  }
  ~Running() {
    on_stop_.reset();  // waits for a call that is under way
    // An interruption by the program's own handler stays until that clears it.
    if (stop_.stop_requested()) schedule::clear_interrupt();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  struct Interrupt {
    void operator()() const noexcept { schedule::interrupt(); }
  };

  std::unique_lock<std::mutex> lock_;
  std::stop_token stop_;
  std::optional<std::stop_callback<Interrupt>> on_stop_;
};

}  // namespace ringfence::detail

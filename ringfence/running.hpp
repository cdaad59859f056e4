#pragma once
// While an analysis of the library runs: the only one of the process, ended by its caller's token,
// or by what its caller's function throws. Not installed.

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "emulator/schedule/interrupt.hpp"
#include "ringfence/held.hpp"
#include "ringfence/subject.hpp"

namespace ringfence::detail {

// This thread is in an analysis, or in what one calls.
class Inside {
 public:
  Inside() : before_(std::exchange(flag(), true)) {}
  ~Inside() { flag() = before_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  static bool& flag() {
    static thread_local bool inside = false;
    return inside;
  }

 private:
  bool before_;
};

class Running {
 public:
  // Waits for its turn; throws Interrupted where it is asked to stop meanwhile.
  explicit Running(std::stop_token stop) : stop_(std::move(stop)) {
    if (Inside::flag()) {
      throw analysis::InputError("an analysis within another one: expected that one to end first");
    }
    std::unique_lock<std::mutex> lock(turn().mutex);
    if (!turn().free.wait(lock, stop_, [] { return !turn().taken; })) throw analysis::Interrupted();
    turn().taken = true;
    inside_.emplace();
    on_stop_.emplace(stop_, Interrupt{});
  }
  ~Running() {
    on_stop_.reset();  // waits for a call that is under way
    // An interruption by the program's own handler stays until that clears it.
    if (stop_.stop_requested() || ended_) schedule::clear_interrupt();
    {
      const std::lock_guard<std::mutex> lock(turn().mutex);
      turn().taken = false;
    }
    turn().free.notify_one();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // From any thread.
  void end() {
    ended_ = true;
    schedule::interrupt();
  }

 private:
  struct Interrupt {
    void operator()() const noexcept { schedule::interrupt(); }
  };

  // The flags that end a run (emulator/schedule/interrupt.hpp) are the process's.
  struct Turn {
    std::mutex mutex;
    std::condition_variable_any free;
    bool taken = false;
  };
  static Turn& turn() {
    static Turn one;
    return one;
  }

  std::stop_token stop_;
  std::optional<Inside> inside_;
  std::optional<std::stop_callback<Interrupt>> on_stop_;
  std::atomic<bool> ended_ = false;
};

// What the options say for themselves. Throws analysis::InputError.
void check_options(const Options& options);

using Tell = std::function<void(const Progress&)>;

// f(Tell), as an analysis: Tell is Options::progress, which is told from one thread at a time. What
// that throws ends the analysis and is thrown in place of its result. `own`: as as_error has it.
template <class F>
auto analysed(const Options& o, bool own, F&& f) {
  std::exception_ptr thrown;
  std::optional<decltype(f(Tell{}))> result;
  try {
    result = as_error(
        [&] {
          Running running(o.stop);
          check_options(o);
          Tell tell;
          if (o.progress) {
            tell = [&](const Progress& p) {
              if (thrown != nullptr) return;
              const Inside inside;
              try {
                o.progress(p);
              } catch (...) {
                thrown = std::current_exception();
                running.end();
              }
            };
          }
          try {
            return f(tell);
          } catch (const schedule::StopRequested&) {
            // Why is known as long as it is running.
            if (schedule::interrupted()) throw analysis::Interrupted();
            throw;
          }
        },
        own);
  } catch (const Error&) {
    if (thrown == nullptr) throw;
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
  return *std::move(result);
}

}  // namespace ringfence::detail

#pragma once
// Waiting for a word in memory that processes share. std::atomic::wait serves only the threads of
// one process: its futex is a private one.

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace ringfence::ranks {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              sizeof(std::atomic<std::uint32_t>) == 4);

inline long futex_call(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
                       const timespec* timeout, std::uint32_t bits) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout,
                 nullptr, bits);
}

// Returns when woken, when the word is not `expected`, after `timeout`, or on a signal.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       std::chrono::nanoseconds timeout) {
  const timespec t{static_cast<time_t>(timeout.count() / 1000000000),
                   static_cast<long>(timeout.count() % 1000000000)};
  futex_call(word, FUTEX_WAIT, expected, &t, 0);
}

inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  futex_call(word, FUTEX_WAIT, expected, nullptr, 0);
}

inline void futex_wake(std::atomic<std::uint32_t>& word, int count = INT_MAX) {
  futex_call(word, FUTEX_WAKE, static_cast<std::uint32_t>(count), nullptr, 0);
}

}  // namespace ringfence::ranks

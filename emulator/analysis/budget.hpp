#pragma once
// --time: the seconds that a command has for all that it does.

#include <algorithm>
#include <chrono>
#include <optional>

#include "emulator/schedule/interrupt.hpp"

namespace ringfence::analysis {

class Budget {
 public:
  using Clock = std::chrono::steady_clock;

  // 0: no limit.
  explicit Budget(double seconds)
      : seconds_(seconds), limit_(seconds > 0 ? seconds + kTelling : 0) {}

  // When the searches are over, and what makes their findings better; none without a limit.
  std::optional<Clock::time_point> end() const {
    if (seconds_ <= 0) return std::nullopt;
    return begin_ +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
  }
  // An equal share of what is left, of so many parts that are still to do; 0: no limit.
  double share(std::size_t parts) const {
    if (seconds_ <= 0) return 0;
    const double used = std::chrono::duration<double>(Clock::now() - begin_).count();
    return std::max(seconds_ - used, 0.001) / static_cast<double>(parts);
  }

 private:
  // Beyond the time, to confirm what was found last and to tell it.
  static constexpr double kTelling = 0.3;

  double seconds_;
  Clock::time_point begin_ = Clock::now();
  schedule::TimeLimit limit_;  // of all
};

}  // namespace ringfence::analysis

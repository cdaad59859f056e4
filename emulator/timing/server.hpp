#pragma once
// Something that serves one thing at a time: a link in one direction, a memory, a multiprocessor's
// load and store unit.
//
// Requests come nearly, not quite, in the order of their times: an agent books at once all that it
// does until it next lets others step, and loads that a kernel issues ahead lie in the past. So a
// booking takes the free time from `from` on, around what is booked already. Time that is over is
// forgotten.

#include <cstddef>
#include <vector>

#include "emulator/schedule/time_ordered.hpp"

namespace ringfence::timing {

using schedule::Time;

class Server {
 public:
  // When `busy` of service from `from` on, in as many pieces as it takes, is done. Nothing is asked
  // for before `now` minus kMemory again.
  Time book(Time from, Time busy, Time now);
  Time booked() const { return booked_; }

 private:
  static constexpr Time kMemory = 200'000'000;  // 200 us
  static constexpr std::size_t kForgetAt = 1024;
  struct Interval {
    Time from, to;
  };
  void forget(Time before);

  std::vector<Interval> busy_;  // sorted, apart from each other
  Time booked_ = 0;
};

}  // namespace ringfence::timing

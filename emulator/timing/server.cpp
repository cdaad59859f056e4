#include "emulator/timing/server.hpp"

#include <algorithm>

namespace ringfence::timing {

Time Server::book(Time from, Time busy, Time now) {
  if (busy <= 0) return from;
  booked_ += busy;
  if (busy_.size() >= kForgetAt) forget(now - kMemory);
  auto i = std::upper_bound(busy_.begin(), busy_.end(), from,
                            [](Time t, const Interval& b) { return t < b.to; });
  const auto first = i;
  Interval whole{from, from};
  Time at = from;
  if (i != busy_.end() && i->from <= from) {
    whole.from = i->from;
    at = i++->to;
  }
  for (; i != busy_.end() && i->from - at < busy; ++i) {
    busy -= i->from - at;
    at = i->to;
  }
  const Time done = at + busy;
  whole.to = done;
  // What touches it joins it.
  auto left = first;
  if (left != busy_.begin() && (left - 1)->to == whole.from) whole.from = (--left)->from;
  if (i != busy_.end() && i->from == whole.to) whole.to = i++->to;
  if (left == i) {
    busy_.insert(left, whole);
  } else {
    *left = whole;
    busy_.erase(left + 1, i);
  }
  return done;
}

void Server::forget(Time before) {
  const auto keep =
      std::find_if(busy_.begin(), busy_.end(), [&](const Interval& b) { return b.to >= before; });
  busy_.erase(busy_.begin(), keep);
}

}  // namespace ringfence::timing

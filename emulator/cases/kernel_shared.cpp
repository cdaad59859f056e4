// Shared memory of blocks under the memory model: a region a block, of which only the lines count
// that the executor has handed over.

#include <algorithm>

#include "emulator/cases/kernel_detail.hpp"

namespace ringfence::cases {

using ptx::kLanes;

// Where weak accesses are events of the search. Not for listeners: a run that is listened to takes
// the same steps as one that is not, or a trace would replay as another run.
bool KernelRun::shares_all(const ptx::Agents& agents) {
  return warp_of(agents).agent->weak_points();
}

ptx::SharedMoments KernelRun::moments(const ptx::Agents& agents) {
  Warp& warp = warp_of(agents);
  settle(warp);
  if (warp.moved) {
    warp.moved = false;
    warp.agent->act(warp.last_site, [&](machine::Machine& m) {
      const auto lanes = warp.agent->lane_threads();
      for (std::size_t i = 0; i < lanes.size(); ++i) warp.times[i] = m.time_of(lanes[i]);
    });
  }
  return {warp.times.data(), levels_[warp.block]};
}

bool KernelRun::ordered(const ptx::Agents& agents, const ptx::SharedActor& now,
                        const ptx::SharedActor& earlier, std::uint32_t time, bool by_async) {
  bool known = false;
  Warp& warp = warp_of(agents);
  warp.agent->act(warp.last_site, [&](machine::Machine& m) {
    const machine::ThreadId who = thread_of(now), other = thread_of(earlier);
    known = by_async ? m.knows_by_async(who, other, time, true) : m.knows(who, other, time);
  });
  return known;
}

bool KernelRun::knows_of(const ptx::Agents& now, std::uint32_t block) {
  Warp& warp = warp_of(now);
  settle(warp);
  bool known = false;
  warp.agent->act(warp.last_site, [&](machine::Machine& m) {
    const machine::ThreadId thread = warp.agent->lane_thread(ptx::first_lane(now.mask));
    for (std::uint32_t w = 0; w < warps_a_block_ && !known; ++w) {
      const Warp& other = warps_[block * warps_a_block_ + w];
      for (std::size_t lane = 0; lane < other.began.size() && !known; ++lane) {
        known = m.knows(thread, other.agent->lane_thread(static_cast<std::uint32_t>(lane)),
                        other.began[lane]);
      }
    }
  });
  return known;
}

void KernelRun::share(const ptx::Agents& agents, std::uint64_t place,
                      std::span<const std::byte> line, std::span<const ptx::SharedPast> past) {
  Warp& warp = warp_of(agents);
  std::vector<machine::Earlier> history;
  history.reserve(past.size());
  for (const ptx::SharedPast& p : past) {
    history.push_back({thread_of({p.of_engine, p.block, p.thread}), p.time,
                       kernel_.site[p.instruction], static_cast<std::uint8_t>(p.byte),
                       static_cast<std::uint8_t>(p.bytes), p.write,
                       p.async ? machine::Proxy::async : machine::Proxy::generic});
  }
  const machine::Address at = shared_address(place);
  warp.agent->act(warp.last_site, [&](machine::Machine& m) {
    m.open_region(at.region);
    m.adopt(at, line, history);
  });
}

}  // namespace ringfence::cases

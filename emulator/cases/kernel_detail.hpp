#pragma once
// What the parts of KernelRun share.

#include <bit>
#include <cstdint>

#include "emulator/cases/kernel_run.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::cases {

// With more lanes than these at work an instruction moves data: one point for all of them.
inline constexpr int kMostSingleLanes = 8;

// How the machine makes an access of a kernel.
machine::Access how_of(const ptx::Access& access, std::uint16_t site);
// The operator of an atomic as the machine takes it; valid until the next call.
machine::CombineFunction combine_of(const ptx::Access& access);

inline bool same(machine::Address a, machine::Address b) {
  return a.region == b.region && a.offset == b.offset;
}

inline void mix(std::uint64_t& digest, std::uint64_t value) {
  digest = (digest ^ value) * 0x9FB21C651E98DF25ULL;
  digest ^= digest >> 29;
}

template <class F>
void KernelRun::write_lanes(Warp& warp, ptx::Request& request, const Target* targets,
                            const machine::Access& how, machine::AccessKind kind, bool together,
                            const F& one) {
  schedule::Agent& agent = *warp.agent;
  const std::uint32_t lanes = request.agents.mask;
  if (together) {
    agent.act(how.site, [&](machine::Machine& m) {
      ptx::each_lane(lanes, [&](std::uint32_t lane) { one(m, lane); });
    });
    request.completed = lanes;
    return;
  }
  std::uint32_t todo = choose_lanes(warp, lanes);
  request.completed = todo;
  for (bool first = true; todo != 0; todo &= todo - 1, first = false) {
    if (!first) agent.point(pending(targets[ptx::first_lane(todo)], how, kind, request));
    agent.act(how.site, [&](machine::Machine& m) { one(m, ptx::first_lane(todo)); });
  }
}

}  // namespace ringfence::cases

#pragma once
// What the parts of KernelRun share.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "emulator/cases/kernel_run.hpp"
#include "emulator/ptx/lanes.hpp"
#include "emulator/schedule/strategy.hpp"

namespace ringfence::cases {

using schedule::kMostSingleLanes;

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

// f(where they lie in memory, where in a register, bytes) for the elements of 16 bytes a lane.
template <class F>
void each_element(const ptx::Request& request, F f) {
  const std::uint32_t size = ptx::size_of(request.access->type);
  for (std::uint32_t lane = 0; lane < ptx::kLanes; ++lane) {
    for (std::uint32_t e = 0; e < request.access->elements; ++e) {
      f(std::size_t{lane} * machine::kLineBytes + std::size_t{e} * size,
        request.elements[e] + std::size_t{lane} * request.lane_bytes, size);
    }
  }
}

template <class F>
void KernelRun::in_turn(Warp& warp, const ptx::Request& request, const Target* targets,
                        const machine::Access& how, machine::AccessKind kind, std::uint32_t lanes,
                        const F& one) {
  schedule::Agent& agent = *warp.agent;
  for (bool first = true; lanes != 0; lanes &= lanes - 1, first = false) {
    const std::uint32_t lane = ptx::first_lane(lanes);
    if (!first) agent.point(pending(targets[lane], how, kind, request));
    agent.act(how.site, [&](machine::Machine& m) { one(m, lane); });
  }
}

// What a multimem instruction does at each replica. Nothing orders those parts (PTX ISA: no
// sentence makes it one operation), so where schedules are explored each is a step of its own.
template <class F>
void KernelRun::write_lanes(Warp& warp, ptx::Request& request, const Target* targets,
                            const machine::Access& how, machine::AccessKind kind, bool together,
                            const F& one) {
  schedule::Agent& agent = *warp.agent;
  const std::uint32_t lanes = request.agents.mask;
  const auto replicas = [&](std::uint32_t lane) { return targets[lane].mapping->regions.size(); };
  const auto whole = [&](machine::Machine& m, std::uint32_t lane) {
    for (std::size_t r = 0; r < replicas(lane); ++r) one(m, lane, r);
  };
  if (together) {
    agent.act(how.site, [&](machine::Machine& m) {
      ptx::each_lane(lanes, [&](std::uint32_t lane) { whole(m, lane); });
    });
    request.completed = lanes;
    return;
  }
  const std::uint32_t todo = choose_lanes(warp, lanes);
  request.completed = todo;
  if (!agent.drops_looks()) return in_turn(warp, request, targets, how, kind, todo, whole);
  bool first = true;
  ptx::each_lane(todo, [&](std::uint32_t lane) {
    for (std::size_t r = 0; r < replicas(lane); ++r) {
      schedule::PendingAccess next = pending(targets[lane], how, kind, request);
      next.at = place(targets[lane], r);
      if (!std::exchange(first, false)) agent.point(next);
      agent.act(how.site, [&](machine::Machine& m) { one(m, lane, r); });
    }
  });
}

}  // namespace ringfence::cases

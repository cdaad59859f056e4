// Loops that poll: when a lane has come back to the same reads in the same state, and what it waits
// for then.

#include <cstring>

#include "emulator/cases/kernel_run.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::cases {
namespace {

using ptx::each_lane;
using ptx::kLanes;

// Reads that a lane's polls are compared with; a loop over more places is not recognised.
constexpr std::size_t kMostPolls = 64;
// Looks at one place among those, all alike, after which a loop waits although its registers
// differ.
constexpr std::size_t kMostLooks = 8;

}  // namespace

bool KernelRun::may_go_on(machine::Machine& machine, const Warp& warp, std::uint32_t lane) const {
  for (const schedule::LaneWait& w : warp.waits[lane]) {
    if (!warp.agent->late(w.await.at) &&
        machine.can_end(w.thread, w.await.at, w.await.access, w.await.wanted, w.await.by_rmw)) {
      return true;
    }
  }
  return false;
}

// Whether the lane was here before in the same state, with no effect since: then `waits` says what
// would have to change. `digest` is for remember().
bool KernelRun::repeats(Warp& warp, const ptx::Request& request, std::uint32_t lane,
                        machine::Address at, std::uint64_t& digest) {
  digest = 0;
  if (warp.polls.empty() || request.registers == nullptr) return false;
  std::vector<Poll>& polls = warp.polls[lane];
  bool seen = false;
  for (const Poll& p : polls) {
    seen = seen || (p.instruction == request.instruction && p.at.region == at.region &&
                    p.at.offset == at.offset);
  }
  if (!seen) return false;
  digest = ptx::lane_digest(kernel_.program, request, lane) | 1U;
  const auto same_place = [&](const Poll& p) {
    return p.instruction == request.instruction && p.at.offset == at.offset &&
           p.at.region == at.region;
  };
  std::size_t from = polls.size();
  for (std::size_t i = polls.size(); i-- > 0;) {
    if (!same_place(polls[i]) || polls[i].digest != digest) continue;
    from = i;
    break;
  }
  if (from == polls.size() && polls.size() == kMostPolls) {
    // A loop that counts its attempts: it has looked often enough.
    std::size_t looks = 0;
    bool alike = true;
    for (std::size_t i = 0; i < polls.size(); ++i) {
      if (!same_place(polls[i])) continue;
      alike = alike && (looks == 0 || polls[i].value == polls[from].value);
      ++looks;
      from = i;
    }
    if (!alike || looks < kMostLooks) from = polls.size();
  }
  if (from == polls.size()) return false;
  std::vector<schedule::LaneWait>& waits = warp.waits[lane];
  waits.clear();
  for (std::size_t j = from; j < polls.size(); ++j) {
    schedule::LaneWait w;
    w.lane = lane;
    w.thread = warp.agent->lane_thread(lane);
    w.await = {
        polls[j].at, polls[j].access, {machine::Compare::ne, polls[j].value}, polls[j].by_rmw};
    w.needs = polls[j].needs;
    waits.push_back(w);
  }
  // What follows repeats these.
  polls.resize(from);
  return true;
}

// Whether a lane has polled at this place by this instruction, with no effect since: repeats() then
// has to look.
bool KernelRun::was_here(const Warp& warp, const ptx::Request& request,
                         const Target* targets) const {
  if (warp.polls.empty()) return false;
  bool here = false;
  each_lane(request.agents.mask, [&](std::uint32_t lane) {
    const machine::Address at = place(targets[lane]);
    for (const Poll& p : warp.polls[lane]) {
      here = here || (p.instruction == request.instruction && p.at.offset == at.offset &&
                      p.at.region == at.region);
    }
  });
  return here;
}

void KernelRun::remember(Warp& warp, std::uint32_t lane, const Poll& poll) {
  if (warp.polls.empty()) {
    warp.polls.resize(kLanes);
    warp.waits.resize(kLanes);
  }
  std::vector<Poll>& polls = warp.polls[lane];
  if (polls.size() == kMostPolls) polls.erase(polls.begin());
  polls.push_back(poll);
}

// A lane that overwrites what it polled last took that signal.
void KernelRun::note_taken(machine::Machine& machine, const Warp& warp, std::uint32_t lane,
                           const Target& target, std::uint32_t bytes) const {
  if (warp.polls.empty()) return;
  const machine::Address at = place(target);
  const std::vector<Poll>& polls = warp.polls[lane];
  for (auto p = polls.rbegin(); p != polls.rend(); ++p) {
    if (p->by_rmw || p->at.region != at.region || p->at.offset < at.offset ||
        p->at.offset - at.offset >= bytes) {
      continue;
    }
    return machine.took(p->at, p->access.element, p->value);
  }
}

void KernelRun::had_effect(Warp& warp, std::uint32_t lanes) {
  warp.looked = 0;
  if (warp.polls.empty()) return;
  each_lane(lanes, [&](std::uint32_t lane) { warp.polls[lane].clear(); });
  warp.armed &= ~lanes;
}

const schedule::LaneWait* KernelRun::armed_wait(const Warp& warp, std::uint32_t lane,
                                                machine::Address at, bool by_rmw) const {
  if ((warp.armed >> lane & 1U) == 0) return nullptr;
  for (const schedule::LaneWait& w : warp.waits[lane]) {
    if (w.await.at.region == at.region && w.await.at.offset == at.offset &&
        w.await.by_rmw == by_rmw) {
      return &w;
    }
  }
  return nullptr;
}

bool KernelRun::read_change(machine::Machine& machine, Warp& warp, std::uint32_t lane,
                            machine::Address at, const machine::Access& how, std::byte* out) {
  const machine::ThreadId thread = warp.agent->lane_thread(lane);
  const schedule::LaneWait* w = armed_wait(warp, lane, at, false);
  if (w == nullptr || !machine.can_end(thread, at, how, w->await.wanted, false)) {
    machine.read(thread, at, how, {out, how.element});
    return true;
  }
  const auto value = machine.try_read_until(thread, at, how, w->await.wanted);
  if (!value) return false;
  std::memcpy(out, &*value, how.element);
  return true;
}

}  // namespace ringfence::cases

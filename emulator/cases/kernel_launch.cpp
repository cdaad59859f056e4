// How a launch goes with the one before and the one behind it (programmatic dependent launch, PTX
// ISA 9.7.15.14), and how its blocks get room on the GPU.

#include <utility>

#include "emulator/cases/kernel_detail.hpp"
#include "emulator/machine/barrier_step.hpp"

namespace ringfence::cases {

using ptx::each_lane;

std::uint32_t KernelRun::all_lanes(const Warp& warp) {
  const std::size_t lanes = warp.agent->lane_threads().size();
  return lanes >= ptx::kLanes ? ~0U : (1U << lanes) - 1;
}

// Any other block may have the place when one ends.
void KernelRun::wait_for_room(Warp& warp) {
  bool waited = false;
  while (!execution_.admit(warp.block)) {
    waited = true;
    outside_.push_back(&warp);
    fault_.no_room = static_cast<std::uint16_t>(execution_.config().launch + 1);
    tell_wait(warp, {0, {}, true, PhaseWait::What::room});
    warp.agent->wait_turn(settings_.barrier_site, true);
    if (warp.told != nullptr) warp.told->used = false;
    warp.told = nullptr;
  }
  if (waited) warp.agent->left(&outside_, all_lanes(warp));
}

void KernelRun::ended(Warp& warp) {
  // Who waits for the block's end waits for all of its warps.
  warp.agent->arrived(&live_[warp.block], all_lanes(warp));
  if (--live_[warp.block] != 0) return;
  warp.agent->left(&live_[warp.block], all_lanes(warp));
  if (settings_.self != nullptr) block_triggers(warp);
  if (!execution_.config().asks_for_room) return;
  warp.agent->act(warp.last_site, [&](machine::Machine&) {
    warp.agent->arrived(&outside_, all_lanes(warp));
    for (Warp* other : outside_) warp.agent->let_go(*other->agent);
    outside_.clear();
    fault_.no_room = 0;
  });
}

// The first call of any thread of a block counts, or its end.
void KernelRun::block_triggers(Warp& warp) {
  if (std::exchange(triggered_[warp.block].done, true)) return;
  warp.agent->act(warp.last_site, [&](machine::Machine&) {
    warp.agent->arrived(&settings_.self->triggered, all_lanes(warp));
    if (--untriggered_ != 0) return;
    settings_.self->triggered = true;
    settings_.self->tell(*warp.agent);
  });
}

// Which thread of a block is the first is an order of steps at one place, which is explored where
// it decides something.
void KernelRun::before_trigger(const ptx::Agents& agents) {
  if (settings_.self == nullptr) return;
  Warp& warp = warp_of(agents);
  settle(warp);
  warp.accessed = true;
  if (warp.agent->orders_first(trigger_address(agents))) {
    warp.agent->point();
  } else {
    warp.agent->point_at_fence(machine::Machine::Fence::release);
  }
}

void KernelRun::launch_dependents(const ptx::Agents& agents, std::span<const ptx::Agents> next,
                                  bool met, std::uint32_t instruction) {
  if (settings_.self == nullptr) return;
  Warp& warp = warp_of(agents);
  settle(warp);
  warp.moved = true;
  const std::uint16_t site = kernel_.site[instruction];
  const machine::Address at = trigger_address(agents);
  const bool ordered = warp.agent->orders_first(at);
  bool fences = false;
  warp.agent->act(warp.last_site, [&](machine::Machine& m) {
    std::vector<machine::ThreadId> threads, others;
    const auto add = [&](const ptx::Agents& a, std::vector<machine::ThreadId>& to) {
      const Warp& w = warp_of(a);
      each_lane(a.mask, [&](std::uint32_t lane) { to.push_back(w.agent->lane_thread(lane)); });
    };
    add(agents, threads);
    for (const ptx::Agents& a : next) {
      // A warp that has not begun has no fence to add, and no agent yet.
      if (a.warp != agents.warp && warp_of(a).agent != nullptr) add(a, others);
    }
    fences = m.trigger(threads, others);
    if (ordered) m.come_first(threads.front(), at, machine::step_access(site));
  });
  Trigger& trigger = triggered_[warp.block];
  if (trigger.done) {
    // Had this one been the first, what fences of the block hand on might be something else; not
    // where both did nothing since all threads met: then each would have met the other's fences.
    const bool differs = (fences || trigger.fences) && !(met && trigger.met);
    warp.agent->late(&trigger, {at, trigger.by == &warp, differs, site});
  } else {
    trigger = {false, fences, met, &warp};
    warp.agent->arrived(&trigger, 0);
  }
  block_triggers(warp);
}

bool KernelRun::dependencies_met(const ptx::Agents& agents) {
  Warp& warp = warp_of(agents);
  if (settings_.before == nullptr) return true;
  settle(warp);
  if (!settings_.before->ended) {
    warp.waiting |= agents.mask;
    warp.dependent |= agents.mask;
    return false;
  }
  warp.moved = true;
  warp.behind |= agents.mask;
  warp.agent->act(warp.last_site, [&](machine::Machine& m) {
    warp.agent->left(&settings_.before->ended, agents.mask);
    each_lane(agents.mask, [&](std::uint32_t lane) {
      m.wait_for_launch(warp.agent->lane_thread(lane), settings_.before->stream);
    });
  });
  return true;
}

void KernelRun::wait_for_launch(Warp& warp) {
  settings_.before->waiting.push_back(warp.agent);
  tell_wait(warp, {0, {}, true, PhaseWait::What::launch});
  warp.agent->wait_turn(warp.last_site);
  if (warp.told != nullptr) warp.told->used = false;
  warp.told = nullptr;
}

// The manual asks for griddepcontrol.wait where a release fence before the trigger orders the two.
void KernelRun::note_unwaited(Warp& warp, const ptx::Request& request, const Target* targets) {
  warp.agent->act(warp.last_site, [&](machine::Machine& m) {
    if (!m.fenced_triggers(settings_.before->stream)) return;
    each_lane(request.agents.mask & ~warp.behind, [&](std::uint32_t lane) {
      if (m.written_by(place(targets[lane]), settings_.before->stream)) {
        remark({Remark::Kind::fence_only, kernel_.site[request.instruction], 0});
      }
    });
  });
}

}  // namespace ringfence::cases

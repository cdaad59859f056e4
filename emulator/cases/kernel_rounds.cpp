// Loops that wait in which a whole block takes part: a thread looks, and hands what it saw to the
// others through shared memory and the block's barrier.
//
// At a barrier at which all of a block's threads have met, nothing of it is under way: registers,
// places in the text and shared memory say what it does next, but for what it reads. A round from
// one such moment to a later one that is equal, without an effect beyond the block, will be
// repeated for as long as its reads return what they did. So the block sleeps until one of them can
// return something else. Counters and clocks that reach no more than a test which may trap are left
// out of the comparison, as for a single warp, and the time-out is named; any other one that moves
// on makes the moments differ.

#include <algorithm>

#include "emulator/cases/kernel_detail.hpp"
#include "emulator/ptx/error.hpp"

namespace ringfence::cases {
namespace {

// Moments kept for comparison: barriers of a round. Reads since the first of them.
constexpr std::size_t kMostMoments = 8;
constexpr std::size_t kMostReads = 2048;
// Meetings without an effect before a loop is taken for one that may wait.
constexpr std::uint32_t kPatience = 4;

}  // namespace

void KernelRun::begin_round(Rounds& r) {
  r.moments.clear();
  r.reads.clear();
  r.recording = false;
}

void KernelRun::ends_round(std::uint32_t block) {
  Rounds& r = rounds_[block];
  if (r.met == 0 || r.asleep) return;
  r.met = r.next = 0;
  r.attempts.clear();
  begin_round(r);
}

// Time-outs that can only trap are not taken: a round in vain does not count to them.
void KernelRun::spare_attempts(Rounds& r, std::uint32_t instruction, ptx::BlockState& state) {
  if (kernel_.program.rounds == nullptr) return;
  if (kernel_.program.rounds->time_outs(instruction).empty()) return;
  const auto first = std::find_if(r.attempts.begin(), r.attempts.end(),
                                  [&](const auto& a) { return a.first == instruction; });
  if (first != r.attempts.end()) {
    state.set_attempts(first->second);
    name_time_out(r, instruction);
    return;
  }
  std::vector<std::uint64_t> now = state.attempts();
  if (!now.empty()) r.attempts.emplace_back(instruction, std::move(now));
}

// By the barrier at which they met first.
void KernelRun::name_time_out(const Rounds& r, std::uint32_t instruction) {
  if (!r.attempts.empty()) instruction = r.attempts.front().first;
  remark({Remark::Kind::time_out, kernel_.site[instruction], 0});
}

void KernelRun::note_round(const Warp& warp, const Seen& seen) {
  Rounds& r = rounds_[warp.block];
  if (!r.recording) return;
  if (r.reads.size() < kMostReads) {
    r.reads.push_back({warp.index, seen});
    return;
  }
  r.next = r.met * 2;  // it moves data: not soon again
  begin_round(r);
}

void KernelRun::met(const ptx::Agents& last, std::uint32_t instruction, ptx::BlockState& state) {
  if (kernel_.program.in_loop[instruction] == 0) return ends_round(last.block);
  Rounds& r = rounds_[last.block];
  const bool drops = warp_of(last).agent->drops_looks();
  if (r.asleep) return;
  if (r.acts != state.acts()) {
    ends_round(last.block);
    r.acts = state.acts();
  }
  ++r.met;
  const bool spares = !takes_time_outs(warp_of(last));
  if (spares) spare_attempts(r, instruction, state);
  if (!drops && r.met < std::max(kPatience, r.next)) return;
  if (r.moments.size() == kMostMoments) {
    r.next = r.met * 2;
    begin_round(r);
    if (!drops) return;
  }
  const ptx::BlockState::Digest digest = state.digest(spares);
  bool repeats = false;
  const auto before = std::find_if(r.moments.begin(), r.moments.end(), [&](const Moment& m) {
    if (m.instruction != instruction) return false;
    repeats = m.digest.all == digest.all;
    return repeats || (digest.rest && m.digest.rest == digest.rest);
  });
  if (before == r.moments.end() || !r.recording) {
    r.recording = true;
    r.moments.push_back({instruction, digest, r.reads.size()});
    return;
  }
  std::vector<RoundWait> waits;
  for (std::size_t i = before->from; i < r.reads.size(); ++i) {
    const auto& [index, seen] = r.reads[i];
    const machine::ThreadId thread =
        warps_[last.block * warps_a_block_ + index].agent->lane_thread(seen.lane);
    bool known = false;
    for (const RoundWait& w : waits) {
      if (w.wait.thread != thread || !same(w.wait.await.at, seen.at)) continue;
      // It changed meanwhile: that is no round to be repeated.
      if (w.wait.await.wanted.holds(seen.value)) {
        before->from = r.reads.size();
        return;
      }
      known = known || (w.wait.await.access.order == seen.access.order &&
                        w.wait.await.access.scope == seen.access.scope &&
                        w.wait.await.by_rmw == seen.by_rmw);
    }
    if (known) continue;
    RoundWait w;
    w.warp = index;
    w.wait.lane = seen.lane;
    w.wait.thread = thread;
    w.wait.await = {seen.at, seen.access, {machine::Compare::ne, seen.value}, seen.by_rmw};
    w.wait.needs = seen.needs;
    w.wait.of_iteration = drops;
    waits.push_back(w);
  }
  if (waits.empty() && !repeats) {
    r.next = r.met * 2;
    return begin_round(r);
  }
  if (waits.empty()) {
    throw ptx::Fault(ptx::FaultKind::endless,
                     "the block does nothing but come back to this barrier with the same registers "
                     "and shared memory",
                     ptx::first_lane(last.mask));
  }
  if (!repeats && digest.times_out) {
    name_time_out(r, instruction);
  }
  r.waits = std::move(waits);
  r.asleep = true;
}

bool KernelRun::takes_time_outs(Warp& warp) {
  bool takes = false;
  warp.agent->act(warp.last_site, [&](machine::Machine& m) {
    takes = m.policy().time_out == machine::TimeOut::taken;
  });
  return takes;
}

// The block goes on in the same way for each of its warps, so where they stop is of no matter.
void KernelRun::sleep(Warp& warp) {
  Rounds& r = rounds_[warp.block];
  schedule::Agent& agent = *warp.agent;
  std::vector<schedule::LaneWait> mine;
  for (const RoundWait& w : r.waits) {
    if (w.warp == warp.index) mine.push_back(w.wait);
  }
  const auto can_change = [&] {
    bool can = false;
    agent.act(warp.last_site, [&](machine::Machine& m) {
      for (const schedule::LaneWait& w : mine) {
        can = can || (!agent.late(w.await.at) && m.can_end(w.thread, w.await.at, w.await.access,
                                                           w.await.wanted, w.await.by_rmw));
      }
    });
    return can;
  };
  while (r.asleep) {
    if (mine.empty()) {
      warp.sleeping = true;
      agent.park(settings_.barrier_site, schedule::Parked::open);
    } else if (agent.drops_looks() || !can_change()) {
      warp.sleeping = true;
      agent.await_any(mine);
    } else {
      r.asleep = false;
      r.met = r.next = 0;
      begin_round(r);
      agent.act(warp.last_site, [&](machine::Machine&) {
        for (std::uint32_t i = 0; i < warps_a_block_; ++i) {
          Warp& other = warps_[warp.block * warps_a_block_ + i];
          // What was read next there is to see the change, or nobody would.
          other.iteration.clear();
          for (const RoundWait& w : r.waits) {
            if (w.warp != i) continue;
            other.iteration.push_back(w.wait);
            other.iteration.back().of_iteration = true;
          }
          other.unchanged = !other.iteration.empty();
          if (other.sleeping && &other != &warp) agent.unpark(*other.agent);
        }
      });
    }
    warp.sleeping = false;
  }
}

}  // namespace ringfence::cases

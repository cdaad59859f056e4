// Loops that wait: when a look is in vain, and what is waited for then.

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/cases/kernel_detail.hpp"
#include "emulator/cases/look_ends.hpp"
#include "emulator/ptx/looks.hpp"

namespace ringfence::cases {
namespace {

using ptx::each_lane;
using ptx::first_lane;
using ptx::kLanes;

// Reads since an effect that are kept: an iteration of more is not recognised.
constexpr std::size_t kMostSeen = 2048;
// Weak loads that are.
constexpr std::size_t kMostWeakReads = 256;

}  // namespace

// As the kernel's text has it, where it is one comparison with the value of a register.
machine::Wanted KernelRun::needs_of(const ptx::Request& request, std::uint32_t lane,
                                    std::uint64_t there, const machine::Wanted& otherwise) {
  const bool unknown = otherwise.compare == machine::Compare::ne && otherwise.value == there;
  if (!unknown || request.lookahead == nullptr) return otherwise;
  std::optional<ptx::LookTest> test = request.lookahead->test(lane);
  if (!test) return otherwise;
  // It waits: what holds now does not end it.
  if (test->holds(there)) test = test->negated();
  return {test->compare, test->with};
}

std::vector<schedule::LaneWait>& KernelRun::waits_of(Warp& warp, std::uint32_t lane) {
  if (warp.waits.empty()) warp.waits.resize(kLanes);
  return warp.waits[lane];
}

bool KernelRun::may_go_on(machine::Machine& machine, const Warp& warp, std::uint32_t lane) const {
  const bool together = (warp.together >> lane & 1U) != 0;
  for (const schedule::LaneWait& w : together ? warp.iteration : warp.waits[lane]) {
    if (w.of_iteration && (w.missed || warp.agent->drops_looks())) continue;
    if (!warp.agent->late(w.await.at) &&
        machine.can_end(w.thread, w.await.at, w.await.access, w.await.wanted, w.await.by_rmw)) {
      return true;
    }
  }
  return false;
}

// Whether the first of the lanes that do not wait has been at this look and seen this place, with
// no effect of the warp since.
bool KernelRun::was_here(const Warp& warp, const InCycle& look) const {
  const std::uint32_t free = look.agents.mask & ~warp.waiting;
  const std::uint32_t lane = first_lane(free != 0 ? free : look.agents.mask);
  const machine::Address at = look.targets == nullptr ? look.at : place(look.targets[lane]);
  for (std::uint32_t i = warp.seen_last[lane]; i != 0; i = warp.seen[i - 1].earlier) {
    const Seen& s = warp.seen[i - 1];
    if (s.instruction == look.instruction && same(s.at, at)) return true;
  }
  return false;
}

void KernelRun::release_together(Warp& warp) {
  warp.waiting &= ~warp.together;
  warp.may_give_up &= ~warp.together;
  warp.released |= warp.together;
  warp.together = 0;
  warp.unchanged = true;
}

bool KernelRun::goes_round(Warp& warp, const InCycle& look) {
  if ((look.agents.mask & warp.waiting & warp.together) != 0) {
    // Another part of the warp has run, and this one came again.
    bool may = false;
    warp.agent->act(warp.last_site, [&](machine::Machine& m) {
      may = may_go_on(m, warp, first_lane(warp.together));
    });
    if (may) {
      release_together(warp);
    } else if ((look.agents.mask & ~warp.waiting) == 0) {
      return true;
    }
  }
  // Those that wait for a look of their own came here before.
  const std::uint32_t lanes = look.agents.mask & ~warp.waiting;
  if (lanes == 0) return false;
  if ((lanes & warp.released) != 0) {
    warp.released &= ~lanes;
    return false;
  }
  const bool counts = !look.attempts && look.lookahead.counts_attempts();
  if (!counts && !warp.agent->drops_looks() && !was_here(warp, look)) return false;
  if (counts) spare_attempts(warp, look, lanes);
  const std::uint64_t state = look.lookahead.state(look.attempts);
  for (std::size_t i = warp.visits.size(); i-- > 0;) {
    const Visit& v = warp.visits[i];
    if (v.instruction != look.instruction || v.lanes != lanes || v.state != state) continue;
    if (v.from == warp.seen.size()) return false;
    if (counts && !repeats(warp, look, v)) return false;
    // What was seen of a place last; what follows reads it again. Two parts of a warp that go round
    // loops of their own wait for the places of both.
    if (warp.together == 0) warp.iteration.clear();
    std::vector<schedule::LaneWait> waits;
    for (std::size_t j = warp.seen.size(); j-- > v.from;) {
      const Seen& s = warp.seen[j];
      schedule::LaneWait w;
      w.lane = s.lane;
      w.thread = warp.agent->lane_thread(s.lane);
      w.await = {s.at, s.access, s.wanted, s.by_rmw};
      w.needs = s.needs;
      w.missed = warp.unchanged;
      w.of_iteration = true;
      const auto there = [&](const schedule::LaneWait& other) {
        return other.thread == w.thread && same(other.await.at, s.at);
      };
      if (std::any_of(waits.begin(), waits.end(), there)) continue;
      std::erase_if(warp.iteration, there);
      waits.push_back(w);
    }
    warp.iteration.insert(warp.iteration.end(), waits.begin(), waits.end());
    const std::uint32_t round = lanes | (look.standing & ~look.agents.mask);
    const Visit here = v;
    forget(warp, here.from);
    warp.visits.assign(1, here);
    // Lanes that the guard leaves out have come round with the others. Alone they would run ahead
    // into the next iteration, and what they read there would not be what is waited for.
    warp.waiting |= round;
    warp.together |= round;
    return true;
  }
  warp.visits.push_back({look.instruction, lanes, state, warp.seen.size(),
                         counts ? look.lookahead.attempts() : std::vector<std::uint64_t>()});
  return false;
}

std::optional<std::uint64_t> KernelRun::last_seen(const Warp& warp, std::uint32_t instruction,
                                                  std::uint32_t lane, bool shared,
                                                  std::uint64_t address,
                                                  std::uint32_t bytes) const {
  machine::Address at;
  if (shared) {
    at = shared_address(address);
  } else {
    const Mapping* const mapping = space_.find(address);
    if (mapping == nullptr) return {};
    at = place({mapping, address - mapping->address});
  }
  for (std::uint32_t i = warp.seen_last[lane]; i != 0; i = warp.seen[i - 1].earlier) {
    const Seen& s = warp.seen[i - 1];
    if (s.instruction == instruction && same(s.at, at) && s.access.element == bytes) return s.value;
  }
  return {};
}

// How the warp ends that has come back to the look if nothing changes any more: `from`, since that
// read.
KernelRun::End KernelRun::end_of_rounds(Warp& warp, const InCycle& look, std::size_t from) {
  std::uint64_t key = 0;
  for (std::size_t i = from; i < warp.seen.size(); ++i) {
    const Seen& s = warp.seen[i];
    for (const std::uint64_t v : {std::uint64_t{s.instruction} << 32 | s.lane,
                                  std::uint64_t{s.at.region}, s.at.offset, s.value}) {
      mix(key, v);
    }
  }
  const bool takes = takes_time_outs(warp);
  const auto& known = kernel_.program.looks->time_outs(look.instruction);
  const bool traps = std::all_of(known.begin(), known.end(), [](const auto& t) { return t.traps; });
  const End end = look.lookahead.rounds_end(
      [&](std::uint32_t instruction, std::uint32_t lane, bool shared, std::uint64_t address,
          std::uint32_t bytes) {
        return last_seen(warp, instruction, lane, shared, address, bytes);
      },
      warp.waiting, key);
  if (end == End::traps && takes) return End::gives_up;
  if (end == End::moves_on && !known.empty() && traps && !takes) return End::traps;
  return end;
}

// No attempt in vain is counted to a time-out that can only trap and is not taken.
void KernelRun::spare_attempts(Warp& warp, const InCycle& look, std::uint32_t lanes) {
  const auto here = [&](const Visit& v) {
    return v.instruction == look.instruction && v.lanes == lanes;
  };
  const auto first = std::find_if(warp.visits.begin(), warp.visits.end(), here);
  if (first == warp.visits.end()) return;
  const auto last = std::find_if(warp.visits.rbegin(), warp.visits.rend(), here);
  if (last->from == warp.seen.size() || end_of_rounds(warp, look, last->from) != End::traps) return;
  remark({Remark::Kind::time_out, kernel_.site[look.instruction], 0});
  look.lookahead.set_attempts(first->attempts);
}

// A time-out that leads on is taken by choice, at once where looks in vain are no part of the run.
bool KernelRun::repeats(Warp& warp, const InCycle& look, const Visit& before) {
  const std::uint32_t lanes = look.agents.mask & ~warp.waiting;
  const End end = end_of_rounds(warp, look, before.from);
  if (end == End::traps) return true;
  if (end != End::gives_up) {
    // What it does is not known ahead. Attempts that are counted come to their end.
    const auto& known = kernel_.program.looks->time_outs(look.instruction);
    if (end == End::moves_on && !known.empty() && look.lookahead.attempts() != before.attempts) {
      return false;
    }
    warp.agent->act(warp.last_site,
                    [&](machine::Machine& m) { note_time_outs(m, look.instruction, true); });
    return true;
  }
  const bool now = warp.agent->drops_looks() || (warp.gives_up & lanes) != 0 ||
                   warp.agent->choose(schedule::DecisionKind::timeout, 2) == 1;
  warp.gives_up &= ~(lanes | look.standing);
  if (!now) {
    warp.may_give_up |= lanes;
    return true;
  }
  look.lookahead.give_up_rounds(
      [&](std::uint32_t instruction, std::uint32_t lane, bool shared, std::uint64_t address,
          std::uint32_t bytes) {
        return last_seen(warp, instruction, lane, shared, address, bytes);
      },
      warp.waiting);
  warp.visits.clear();
  return false;
}

void KernelRun::note_time_outs(const machine::Machine& machine, std::uint32_t look, bool together) {
  const bool takes = machine.policy().time_out == machine::TimeOut::taken;
  const std::uint16_t site = kernel_.site[look];
  for (const ptx::Looks::TimeOut& t : kernel_.program.looks->time_outs(look)) {
    if (t.traps && !takes) {
      remark({Remark::Kind::time_out, site, 0});
    } else if (together) {
      FaultText::keep(fault_.time_outs, site);
    }
  }
}

bool KernelRun::stays(machine::Machine& machine, Warp& warp, const ptx::Request& request,
                      std::uint32_t lane, machine::Address at, const machine::Access& how,
                      bool by_rmw, std::span<const std::uint64_t> values,
                      const machine::Wanted& needs, std::span<const std::uint64_t> elements) {
  const std::uint32_t bit = 1U << lane;
  if (elements.empty()) elements = values;
  const End end = request.lookahead->trial(lane, {})->end(elements);
  if (end == End::moves_on) return false;
  const bool takes = machine.policy().time_out == machine::TimeOut::taken;
  if (end == End::traps && !takes) {
    remark({Remark::Kind::time_out, kernel_.site[request.instruction], 0});
  }
  if (end == End::gives_up || (end == End::traps && takes)) {
    const bool now = warp.agent->drops_looks() || (warp.gives_up & bit) != 0 ||
                     warp.agent->choose(schedule::DecisionKind::timeout, 2) == 1;
    warp.gives_up &= ~bit;
    if (now) {
      request.lookahead->give_up(lane, elements, {});
      return false;
    }
    warp.may_give_up |= bit;
  }
  std::vector<schedule::LaneWait>& waits = waits_of(warp, lane);
  waits.clear();
  for (std::size_t e = 0; e < values.size(); ++e) {
    schedule::LaneWait w;
    w.lane = lane;
    w.thread = warp.agent->lane_thread(lane);
    w.await = {at, how, {machine::Compare::ne, values[e]}, by_rmw};
    w.await.at.offset += e * how.element;
    w.needs = by_rmw ? needs : w.await.wanted;
    if (values.size() == 1) w.needs = needs_of(request, lane, values[0], w.needs);
    w.of_iteration = warp.agent->drops_looks();
    waits.push_back(w);
  }
  warp.waiting |= bit;
  warp.armed |= bit;
  return true;
}

// What a lane has read by a weak load, for looks to come (rounds.cpp). Where races are
// passed over, or who reads a line first may read more than others, it may not be what the same
// load returns next.
void KernelRun::note_still(const machine::Machine& machine, Warp& warp, const ptx::Request& request,
                           std::uint32_t lane) const {
  const ptx::Access& access = *request.access;
  if (request.shared || settings_.fresh_lines || settings_.line_ordered || !ptx::is_still(access) ||
      std::popcount(request.agents.mask) > kMostSingleLanes || !warp.agent->drops_looks() ||
      warp.agent->weak_points()) {
    return;
  }
  WeakRead read;
  read.lane = lane;
  read.time = machine.time_of(warp.agent->lane_thread(lane));
  read.still.address = request.address[lane];
  read.still.bytes = static_cast<std::uint8_t>(access.bytes());
  std::memcpy(&read.still.value, request.elements[0] + std::size_t{lane} * request.lane_bytes,
              std::min<std::size_t>(access.bytes(), request.lane_bytes));
  std::erase_if(warp.weak_reads, [&](const WeakRead& other) {
    return other.lane == lane && other.still.address == read.still.address;
  });
  if (warp.weak_reads.size() == kMostWeakReads) warp.weak_reads.clear();
  warp.weak_reads.push_back(read);
}

std::vector<ptx::Still> KernelRun::stills_of(const machine::Machine& machine, const Warp& warp,
                                             std::uint32_t lane) {
  std::vector<ptx::Still> out;
  for (const WeakRead& read : warp.weak_reads) {
    if (read.lane == lane && read.time == machine.time_of(warp.agent->lane_thread(lane))) {
      out.push_back(read.still);
    }
  }
  return out;
}

bool KernelRun::look_once(machine::Machine& machine, Warp& warp, ptx::Request& request,
                          std::uint32_t lane, machine::Address at, const machine::Access& how,
                          std::uint64_t& value) {
  const bool by_rmw = request.access->operation == ptx::Operation::atomic;
  const std::uint32_t bit = 1U << lane;
  const machine::ThreadId thread = warp.agent->lane_thread(lane);
  const bool takes = machine.policy().time_out == machine::TimeOut::taken;
  std::vector<ptx::Still> stills = stills_of(machine, warp, lane);
  const auto ends = std::make_shared<const LookEnds>(request, lane, takes, stills);
  const machine::Wanted wanted = ends->wanted();
  std::optional<std::uint64_t> seen;
  const bool can = machine.can_end(thread, at, how, wanted, by_rmw);
  if (can && !by_rmw) {
    seen = machine.try_read_until(thread, at, how, wanted);
  } else if (can) {
    seen = machine.try_rmw_until(thread, at, how, wanted, ends->compare(), ends->operand(),
                                 combine_of(*request.access));
  }
  if (seen) {
    value = *seen;
    // This run makes no look in vain; with another value it would be one.
    const auto vain = [&](std::uint64_t other) { return ends->traps(other); };
    const std::uint64_t others[] = {0, ~std::uint64_t{0}, value - 1, value + 1};
    if (!kernel_.program.looks->time_outs(request.instruction).empty() &&
        std::any_of(std::begin(others), std::end(others), vain)) {
      remark({Remark::Kind::time_out, kernel_.site[request.instruction], 0});
    }
    if (ends->gives_up(value)) {
      request.lookahead->give_up(lane, std::span(&value, 1), std::move(stills));
    }
    return true;
  }
  note_time_outs(machine, request.instruction, false);
  schedule::LaneWait w;
  w.lane = lane;
  w.thread = thread;
  w.await = {at, how, wanted, by_rmw};
  std::uint64_t there = 0;
  machine.peek(at, std::as_writable_bytes(std::span(&there, 1)).first(how.element));
  w.needs = needs_of(request, lane, there, {machine::Compare::ne, there});
  if (ends->traps(there)) remark({Remark::Kind::time_out, kernel_.site[request.instruction], 0});
  if (ends->compare() != nullptr) w.needs = {machine::Compare::eq, *ends->compare()};
  w.any_news = true;
  waits_of(warp, lane).assign(1, w);
  if (warp.look_ends.empty()) warp.look_ends.resize(kLanes);
  warp.look_ends[lane] = ends;
  warp.waiting |= bit;
  if (can) warp.missed |= bit;
  return false;
}

void KernelRun::forget(Warp& warp, std::size_t from) {
  warp.seen.resize(from);
  warp.seen_last.fill(0);
  for (std::size_t i = 0; i < from; ++i) {
    warp.seen_last[warp.seen[i].lane] = static_cast<std::uint32_t>(i + 1);
  }
}

void KernelRun::remember(Warp& warp, Seen seen) {
  if (warp.seen.size() == kMostSeen) {
    forget(warp, 0);
    warp.visits.clear();
  }
  for (const schedule::LaneWait& w : warp.iteration) {
    if (!warp.unchanged) break;
    if (w.lane == seen.lane && same(w.await.at, seen.at) && w.await.wanted.holds(seen.value)) {
      warp.unchanged = false;
    }
  }
  if (!seen.by_rmw && seen.access.order != machine::Order::weak) {
    warp.polled[seen.lane] = {seen.at, seen.access.element, seen.value};
    warp.polled_by |= 1U << seen.lane;
  }
  seen.earlier = warp.seen_last[seen.lane];
  warp.seen.push_back(seen);
  warp.seen_last[seen.lane] = static_cast<std::uint32_t>(warp.seen.size());
}

// A lane that overwrites what it polled last took that signal.
void KernelRun::note_taken(machine::Machine& machine, const Warp& warp, std::uint32_t lane,
                           const Target& target, std::uint32_t bytes) const {
  const machine::Address at = place(target);
  for (std::uint32_t i = warp.seen_last[lane]; i != 0; i = warp.seen[i - 1].earlier) {
    const Seen& s = warp.seen[i - 1];
    if (s.by_rmw || s.at.region != at.region || s.at.offset < at.offset ||
        s.at.offset - at.offset >= bytes || s.access.order == machine::Order::weak) {
      continue;
    }
    return machine.took(s.at, s.access.element, s.value);
  }
  // Another lane's effect has ended what the warp has seen, and not what this one has.
  const Polled& p = warp.polled[lane];
  if ((warp.polled_by >> lane & 1U) != 0 && p.at.region == at.region && p.at.offset >= at.offset &&
      p.at.offset - at.offset < bytes) {
    machine.took(p.at, p.element, p.value);
  }
}

void KernelRun::had_effect(Warp& warp, std::uint32_t lanes, bool in_block) {
  if (!in_block) ends_round(warp.block);
  std::erase_if(warp.weak_reads,
                [&](const WeakRead& read) { return (lanes >> read.lane & 1U) != 0; });
  warp.polled_by &= ~lanes;
  if (!warp.seen.empty()) forget(warp, 0);
  warp.visits.clear();
  warp.armed &= ~lanes;
  if (warp.together != 0) return;
  warp.iteration.clear();
  warp.unchanged = false;
}

const schedule::LaneWait* KernelRun::armed_wait(const Warp& warp, std::uint32_t lane,
                                                machine::Address at, bool by_rmw) const {
  const auto find = [&](const std::vector<schedule::LaneWait>& waits) {
    for (const schedule::LaneWait& w : waits) {
      if (w.lane == lane && same(w.await.at, at) && w.await.by_rmw == by_rmw) return &w;
    }
    return static_cast<const schedule::LaneWait*>(nullptr);
  };
  if ((warp.armed >> lane & 1U) != 0) return find(warp.waits[lane]);
  return warp.unchanged ? find(warp.iteration) : nullptr;
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
  if (value) {
    std::memcpy(out, &*value, how.element);
    warp.unchanged = warp.unchanged && !w->of_iteration;
    return true;
  }
  if (!w->of_iteration) return false;
  // The iteration is made nevertheless.
  machine.read(thread, at, how, {out, how.element});
  return true;
}

}  // namespace ringfence::cases

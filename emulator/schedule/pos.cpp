#include <algorithm>

#include "emulator/machine/location.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/schedule/strategies.hpp"

namespace ringfence::schedule {
namespace {

// What is no event of the order goes first; who has looked in vain goes last.
constexpr std::uint32_t kAtOnce = ~std::uint32_t{0};
constexpr std::uint32_t kLast = 1u << 30;  // drawn priorities of others are at least that

}  // namespace

PosStrategy::PosStrategy(const StrategySpec& spec, const Profile* profile,
                         std::pmr::memory_resource* memory)
    : random_(spec.seed),
      stale_(spec.stale),
      faults_(spec.faults),
      events_(memory),
      agents_(memory),
      heap_(memory),
      at_once_(memory) {
  // The profile is one run's: what another run shares beside that is seen by those that take every
  // access for an event.
  if (profile != nullptr && !profile->empty() && random_.below(4) != 0) events_.add(*profile);
  agents_.reserve(256);
  heap_.reserve(512);
}

void PosStrategy::begin(std::uint32_t expected_points) {
  deviations_.draw(random_, stale_, faults_, expected_points);
  agents_.clear();
  heap_.clear();
  for (auto& of_rank : at_once_) of_rank.clear();
  at_once_count_ = 0;
  heads_.fill(kNoAgent);
  redraws_ = random_.below(2) == 0;
  stepped_ = kNoAgent;
}

void PosStrategy::on_spawn(AgentId id, std::uint64_t label) {
  if (agents_.size() <= id) agents_.resize(id + 1);
  agents_[id] = {};
  agents_[id].priority = kAtOnce;
  agents_[id].rank = unpack(label).rank;
  if (at_once_.size() <= agents_[id].rank) at_once_.resize(agents_[id].rank + 1);
}

void PosStrategy::on_ready(AgentId id) { push(id); }

void PosStrategy::push(AgentId id) {
  if (agents_[id].queued) return;
  agents_[id].queued = true;
  if (agents_[id].priority == kAtOnce) {
    at_once_[agents_[id].rank].push_back(id);
    ++at_once_count_;
    return;
  }
  heap_.push_back(entry_of(agents_[id].priority, id));
  std::push_heap(heap_.begin(), heap_.end());
}

// A new priority: its entry in the heap, if it has one, is dropped when it comes to the top.
void PosStrategy::set_priority(AgentId id, std::uint32_t priority) {
  agents_[id].priority = priority;
  agents_[id].queued = false;
}

std::uint32_t PosStrategy::draw() {
  return kLast + static_cast<std::uint32_t>(random_.next() >> 33);
}

std::size_t PosStrategy::bucket(const PendingAccess& a) {
  return mix64(std::uint64_t{a.at.region} << 32 ^ a.at.offset / machine::kLineBytes) % kBuckets;
}

void PosStrategy::link(AgentId id, const PendingAccess& access) {
  Agent& a = agents_[id];
  a.access = access;
  a.at_access = true;
  AgentId& head = heads_[bucket(access)];
  a.next = head;
  a.previous = kNoAgent;
  if (head != kNoAgent) agents_[head].previous = id;
  head = id;
}

void PosStrategy::unlink(AgentId id) {
  Agent& a = agents_[id];
  if (!a.at_access) return;
  a.at_access = false;
  (a.previous != kNoAgent ? agents_[a.previous].next : heads_[bucket(a.access)]) = a.next;
  if (a.next != kNoAgent) agents_[a.next].previous = a.previous;
}

// The redraw: who stands before an access that conflicts with the one just made.
void PosStrategy::redraw(const PendingAccess& made, const ReadyView& ready) {
  for (AgentId id = heads_[bucket(made)]; id != kNoAgent; id = agents_[id].next) {
    if (!conflict(made, agents_[id].access)) continue;
    set_priority(id, draw());
    if (ready.is_ready(id)) push(id);
  }
}

// One of the rank's that go at once; kNoAgent if there is none.
AgentId PosStrategy::take_at_once(std::uint32_t rank, const ReadyView& ready) {
  auto& of_rank = at_once_[rank];
  while (!of_rank.empty()) {
    const AgentId id = of_rank.back();
    of_rank.pop_back();
    --at_once_count_;
    Agent& a = agents_[id];
    if (!a.queued || a.priority != kAtOnce) continue;
    a.queued = false;
    if (ready.is_ready(id)) return id;
  }
  return kNoAgent;
}

AgentId PosStrategy::pick(const ReadyView& ready, AgentId current, bool current_ready,
                          std::uint64_t, std::uint32_t) {
  if (current != kNoAgent) {
    const Pending pending = ready.pending(current);
    // Who blocked before an access still waits for it.
    const bool waits = !current_ready && pending == Pending::access;
    const bool stepped = stepped_ == current && agents_[current].at_access && !waits;
    const PendingAccess made = agents_[current].access;
    unlink(current);
    if (stepped && redraws_) redraw(made, ready);
    if (pending == Pending::access && events_.has(ready.pending_access(current).at)) {
      link(current, ready.pending_access(current));
      set_priority(current, draw());
    } else {
      set_priority(current, pending == Pending::yield ? random_.below(kLast) : kAtOnce);
    }
    // Goes on, or another of its rank does: in which order they come to their events is of no
    // matter, and to go on in another rank's process takes longer.
    if (current_ready && agents_[current].priority == kAtOnce) return stepped_ = current;
    if (current_ready) push(current);
    if (const AgentId id = take_at_once(agents_[current].rank, ready); id != kNoAgent) {
      return stepped_ = id;
    }
  }
  for (std::uint32_t rank = 0; at_once_count_ > 0; ++rank) {
    if (const AgentId id = take_at_once(rank, ready); id != kNoAgent) return stepped_ = id;
  }
  for (;;) {
    const std::uint64_t top = heap_.front();
    const AgentId id = id_of(top);
    const bool valid = agents_[id].queued && agents_[id].priority == priority_of(top);
    if (valid && (id == current ? current_ready : ready.is_ready(id))) {
      stepped_ = id;
      return id;
    }
    if (valid) agents_[id].queued = false;
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }
}

void PosStrategy::took(AgentId id) {
  if (id == stepped_) return;
  push(stepped_);
  stepped_ = id;
}

}  // namespace ringfence::schedule

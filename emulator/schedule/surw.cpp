#include <algorithm>

#include "emulator/schedule/label.hpp"
#include "emulator/schedule/strategies.hpp"

namespace ringfence::schedule {

void Events::add(const Profile& profile) {
  for (const Profile::Place& p : profile.places()) add(p.key);
}

bool Events::add(std::uint64_t key) {
  if (2 * (used_ + 1) > table_.size()) {
    std::pmr::vector<std::uint64_t> old(std::max<std::size_t>(16, 2 * table_.size()), 0,
                                        table_.get_allocator());
    old.swap(table_);
    used_ = 0;
    for (const std::uint64_t entry : old) {
      if (entry != 0) add(entry - 1);
    }
  }
  std::size_t i = mix64(key + 1) & (table_.size() - 1);
  while (table_[i] != 0 && table_[i] != key + 1) i = (i + 1) & (table_.size() - 1);
  if (table_[i] != 0) return false;
  table_[i] = key + 1;
  ++used_;
  return true;
}

SurwStrategy::SurwStrategy(const StrategySpec& spec, const Profile* profile,
                           std::pmr::memory_resource* memory)
    : random_(spec.seed),
      stale_(spec.stale),
      faults_(spec.faults),
      events_(memory),
      weights_(memory),
      due_(memory),
      left_(memory),
      makers_(memory),
      agents_(memory) {
  agents_.reserve(256);
  static constexpr double kSwitch[] = {0, 0, 0, 0.1};
  switch_chance_ = threshold(kSwitch[random_.below(4)]);
  if (profile == nullptr || profile->empty()) return;  // all accesses are events
  // Most of what is rare is about a place or two, and some of it about how all of them go together.
  constexpr std::uint32_t kMany = 256;
  static constexpr std::uint32_t kPlaces[] = {0, 1, 2, 4};
  const auto places = profile->places();
  const auto n = static_cast<std::uint32_t>(places.size());
  std::uint32_t take = kPlaces[random_.below(4)];
  if (take == 0 && n <= kMany) {
    for (const Profile::Place& p : places) weigh(*profile, p);
    return;
  }
  for (take = std::max(take, 1u); take > 0; --take) weigh(*profile, places[random_.below(n)]);
}

void SurwStrategy::weigh(const Profile& profile, const Profile::Place& place) {
  if (!events_.add(place.key)) return;
  for (const Profile::Count& c : profile.counts(place)) {
    weight(c.label) += c.accesses;
    const std::uint32_t rank = unpack(c.label).rank;
    if (due_.size() <= rank) due_.resize(rank + 1);
    due_[rank] += c.accesses;
  }
}

std::uint32_t& SurwStrategy::weight(std::uint64_t label) {
  if (2 * (weighed_ + 1) > weights_.size()) {
    std::pmr::vector<Weight> old(std::max<std::size_t>(16, 2 * weights_.size()),
                                 weights_.get_allocator());
    old.swap(weights_);
    weighed_ = 0;
    for (const Weight& w : old) {
      if (w.count != 0) weight(w.label) = w.count;
    }
  }
  std::size_t i = mix64(label) & (weights_.size() - 1);
  while (weights_[i].used && weights_[i].label != label) i = (i + 1) & (weights_.size() - 1);
  weighed_ += !weights_[i].used;
  weights_[i].used = true;
  weights_[i].label = label;
  return weights_[i].count;
}

std::uint32_t SurwStrategy::weight_of(std::uint64_t label) const {
  if (weights_.empty()) return 0;
  std::size_t i = mix64(label) & (weights_.size() - 1);
  while (weights_[i].used && weights_[i].label != label) i = (i + 1) & (weights_.size() - 1);
  return weights_[i].count;
}

void SurwStrategy::begin(std::uint32_t expected_points) {
  deviations_.draw(random_, stale_, faults_, expected_points);
  left_.assign(due_.begin(), due_.end());
  for (auto& of_rank : makers_) of_rank.clear();
  makers_.resize(due_.size());
  agents_.clear();
  stepped_ = intended_ = kNoAgent;
}

void SurwStrategy::on_spawn(AgentId id, std::uint64_t label) {
  if (agents_.size() <= id) agents_.resize(id + 1);
  Agent& a = agents_[id];
  a = {};
  a.rank = unpack(label).rank;
  a.left = weight_of(label);
  if (a.left == 0) return;
  a.maker_at = static_cast<std::uint32_t>(makers_[a.rank].size());
  makers_[a.rank].push_back(id);
}

// An event happened; whose is the next one is open.
void SurwStrategy::made(AgentId id) {
  intended_ = kNoAgent;
  Agent& a = agents_[id];
  if (a.left == 0) return;  // more than in the run that was counted
  --left_[a.rank];
  if (--a.left > 0) return;
  auto& makers = makers_[a.rank];
  agents_[makers.back()].maker_at = a.maker_at;
  makers[a.maker_at] = makers.back();
  makers.pop_back();
}

// A rank by the events that it has left, those of agents to come included; of its agents one by
// theirs. kNoAgent if that rank has no such agent now, or none is left at all.
AgentId SurwStrategy::draw_next() {
  std::uint64_t all = 0;
  for (const std::uint64_t n : left_) all += n;
  if (all == 0) return kNoAgent;
  std::uint64_t at = random_.next() % all;
  std::size_t rank = 0;
  while (at >= left_[rank]) at -= left_[rank++];
  std::uint64_t here = 0;
  for (const AgentId id : makers_[rank]) here += agents_[id].left;
  if (here == 0) return kNoAgent;
  at = random_.next() % here;
  for (const AgentId id : makers_[rank]) {
    if (at < agents_[id].left) return id;
    at -= agents_[id].left;
  }
  return kNoAgent;
}

// All that can step stand before an event, and none of them is due: one of them is now. Or they
// only go round.
AgentId SurwStrategy::pick_blocked(const ReadyView& ready) {
  std::uint64_t all = 0;
  for (std::uint32_t i = 0; i < ready.count(); ++i) {
    const Agent& a = agents_[ready.at(i)];
    if (!a.yields) all += a.left + 1;
  }
  if (all == 0) return ready.at(random_.below(ready.count()));
  std::uint64_t at = random_.next() % all;
  for (std::uint32_t i = 0;; ++i) {
    const Agent& a = agents_[ready.at(i)];
    if (a.yields) continue;
    if (at < a.left + 1) return intended_ = ready.at(i);
    at -= a.left + 1;
  }
}

AgentId SurwStrategy::next(const ReadyView& ready, AgentId current, bool current_ready) {
  if (intended_ == kNoAgent) intended_ = draw_next();
  if (current_ready && may_step(current) && !random_.chance(switch_chance_)) return current;
  // Of the same rank, if there is one among so many: to go on in another rank's process takes
  // longer. Then whose event is due: the others may stay where they are.
  constexpr std::uint32_t kLooks = 64;
  const std::uint32_t n = ready.count();
  const std::uint32_t first = random_.below(n);
  AgentId other = kNoAgent;
  for (std::uint32_t i = 0; i < n; ++i) {
    const AgentId id = ready.at(first + i < n ? first + i : first + i - n);
    if (!may_step(id)) continue;
    if (current == kNoAgent || agents_[id].rank == agents_[current].rank) return id;
    if (other == kNoAgent || id == intended_) other = id;
    if (i >= kLooks) break;
  }
  if (other != kNoAgent) return other;
  return pick_blocked(ready);
}

AgentId SurwStrategy::pick(const ReadyView& ready, AgentId current, bool current_ready,
                           std::uint64_t, std::uint32_t) {
  if (current != kNoAgent) {
    Agent& a = agents_[current];
    const Pending pending = ready.pending(current);
    // Who blocked before an access still waits for it.
    const bool waits = !current_ready && pending == Pending::access;
    if (stepped_ == current && a.at_event && !waits) made(current);
    a.at_event = pending == Pending::access && events_.has(ready.pending_access(current).at);
    a.yields = pending == Pending::yield;
  }
  return stepped_ = next(ready, current, current_ready);
}

}  // namespace ringfence::schedule

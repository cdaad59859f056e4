#include "emulator/schedule/time_ordered.hpp"

#include <algorithm>
#include <stdexcept>

namespace ringfence::schedule {

const char* name(Spent spent) {
  constexpr const char* names[kSpent] = {"product", "launch", "barrier", "waiting",
                                         "loads",   "reduce", "stores"};
  return names[static_cast<std::size_t>(spent)];
}

void TimeOrderedStrategy::begin(std::uint32_t) {
  accounts_.clear();
  queued_.clear();
  queue_ = {};
  current_ = kNoAgent;
  now_ = 0;
}

void TimeOrderedStrategy::on_spawn(AgentId id, std::uint64_t label) {
  if (current_ != kNoAgent) settle(current_);
  accounts_.push_back(current_ == kNoAgent ? Account{} : accounts_[current_]);
  queued_.push_back(-1);
  born(id, current_, label);
}

void TimeOrderedStrategy::on_ready(AgentId id) { push(id); }

void TimeOrderedStrategy::push(AgentId id) {
  queued_[id] = accounts_[id].at;
  queue_.push({accounts_[id].at, id});
}

void TimeOrderedStrategy::on_barrier(std::span<const AgentId> all, const void*) {
  settle(current_);
  AgentId last = all.front();
  for (const AgentId id : all) {
    complete(id);
    if (accounts_[id].at > accounts_[last].at) last = id;
  }
  for (const AgentId id : all) follow(id, last);
  met(all);
}

void TimeOrderedStrategy::on_order(AgentId earlier, AgentId later) {
  settle(earlier);
  complete(earlier);
  follow(later, earlier);
  ordered(earlier, later);
}

void TimeOrderedStrategy::on_end(AgentId id, AgentId parent) {
  settle(id);
  complete(id);
  ended(id, parent);
  if (parent != kNoAgent) follow(parent, id);
}

AgentId TimeOrderedStrategy::pick(const ReadyView& ready, AgentId current, bool current_ready,
                                  std::uint64_t, std::uint32_t) {
  if (current != kNoAgent) settle(current);
  if (current_ready) push(current);
  while (!queue_.empty()) {
    const Entry e = queue_.top();
    queue_.pop();
    if (queued_[e.id] != e.at || !ready.is_ready(e.id)) continue;
    queued_[e.id] = -1;
    now_ = std::max(now_, e.at);
    current_ = e.id;
    return e.id;
  }
  throw std::logic_error("virtual time: an agent is ready and has no place in the queue");
}

}  // namespace ringfence::schedule

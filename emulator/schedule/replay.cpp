#include <algorithm>

#include "emulator/schedule/strategies.hpp"

namespace ringfence::schedule {
namespace {

std::uint64_t hash(std::uint64_t label, std::uint32_t point, DecisionKind kind, std::uint32_t nth) {
  return mix64(mix64(label) ^ (std::uint64_t{point} << 32 | std::uint64_t{nth} << 4 |
                               static_cast<std::uint8_t>(kind)));
}

}  // namespace

ReplayStrategy::ReplayStrategy(std::span<const Decision> decisions,
                               std::pmr::memory_resource* memory)
    : decisions_(decisions.begin(), decisions.end(), memory), table_(memory) {
  std::size_t size = 16;
  while (size < decisions.size() * 2) size *= 2;
  table_.resize(size);
  for (std::uint32_t i = 0; i < decisions_.size(); ++i) {
    const Decision& d = decisions_[i];
    drops_looks_ = drops_looks_ || d.kind == DecisionKind::looks;
    // The first of two decisions about one question counts.
    if (find(d.agent, d.point, d.kind, d.nth) != nullptr) continue;
    std::size_t at = hash(d.agent, d.point, d.kind, d.nth) & (size - 1);
    while (table_[at] != 0) at = (at + 1) & (size - 1);
    table_[at] = i + 1;
  }
}

void ReplayStrategy::begin(std::uint32_t) {
  ask_at(0, 0);
  taken_ = 0;
}

void ReplayStrategy::ask_at(std::uint64_t label, std::uint32_t point) {
  asked_label_ = label;
  asked_point_ = point;
  std::fill(std::begin(asked_), std::end(asked_), 0u);
}

const Decision* ReplayStrategy::find(std::uint64_t label, std::uint32_t point, DecisionKind kind,
                                     std::uint32_t nth) const {
  const std::size_t mask = table_.size() - 1;
  for (std::size_t at = hash(label, point, kind, nth) & mask; table_[at] != 0;
       at = (at + 1) & mask) {
    const Decision& d = decisions_[table_[at] - 1];
    if (d.agent == label && d.point == point && d.kind == kind && d.nth == nth) return &d;
  }
  return nullptr;
}

AgentId ReplayStrategy::pick(const ReadyView& ready, AgentId current, bool current_ready,
                             std::uint64_t label, std::uint32_t point) {
  if (const Decision* d = take(find(label, point, DecisionKind::pick, 0)); d != nullptr) {
    const AgentId id = ready.find(d->value);
    if (id != kNoAgent && ready.is_ready(id)) return id;
  }
  return default_pick(ready, current, current_ready);
}

std::uint32_t ReplayStrategy::choose(DecisionKind kind, std::uint64_t label, std::uint32_t point,
                                     std::uint32_t options) {
  if (label != asked_label_ || point != asked_point_) ask_at(label, point);
  const Decision* d = take(find(label, point, kind, asked_[static_cast<int>(kind)]++));
  return d != nullptr && d->value < options ? static_cast<std::uint32_t>(d->value) : 0;
}

}  // namespace ringfence::schedule

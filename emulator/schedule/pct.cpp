#include <algorithm>

#include "emulator/schedule/label.hpp"
#include "emulator/schedule/strategies.hpp"

namespace ringfence::schedule {
namespace {

constexpr std::uint32_t kHigh = 1u << 31;  // drawn priorities are above it, lowered ones below
constexpr std::uint32_t kUnknownLength = 512;

}  // namespace

PctStrategy::PctStrategy(const StrategySpec& spec, std::pmr::memory_resource* memory)
    : random_(spec.seed),
      stale_(spec.stale),
      faults_(spec.faults),
      depth_(std::max(spec.depth, 1u)),
      changes_(memory),
      priority_(memory),
      queued_(memory),
      heap_(memory) {
  priority_.reserve(256);
  queued_.reserve(256);
  heap_.reserve(512);
}

void PctStrategy::begin(std::uint32_t expected_points) {
  const std::uint32_t length = expected_points > 0 ? expected_points : kUnknownLength;
  deviations_.draw(random_, stale_, faults_, length);
  static constexpr Grain kGrains[] = {Grain::agent, Grain::agent, Grain::block, Grain::rank};
  grain_ = kGrains[random_.below(4)];
  grain_seed_ = random_.next();
  changes_.resize(random_.below(depth_));
  for (std::uint32_t& c : changes_) c = 1 + random_.below(length);
  std::sort(changes_.begin(), changes_.end());
  step_ = next_change_ = 0;
  priority_.clear();
  queued_.clear();
  heap_.clear();
}

void PctStrategy::on_spawn(AgentId id, std::uint64_t label) {
  const auto fine = static_cast<std::uint32_t>(random_.next() >> 33);  // 31 bits
  std::uint32_t priority = fine;
  if (grain_ != Grain::agent) {
    const AgentLabel l = unpack(label);
    const std::uint64_t of =
        grain_ == Grain::block ? std::uint64_t{l.rank} << 32 | l.block : l.rank;
    const auto coarse =
        static_cast<std::uint32_t>(mix64(grain_seed_ ^ mix64(of)) >> 52);  // 12 bits
    priority = coarse << 19 | fine >> 12;
  }
  if (priority_.size() <= id) {
    priority_.resize(id + 1);
    queued_.resize(id + 1);
  }
  priority_[id] = kHigh | priority;
  queued_[id] = 0;
}

void PctStrategy::on_ready(AgentId id) {
  if (queued_[id] == 0) push(id);
}

void PctStrategy::push(AgentId id) {
  queued_[id] = 1;
  heap_.push_back(entry_of(priority_[id], id));
  std::push_heap(heap_.begin(), heap_.end());
}

AgentId PctStrategy::pick(const ReadyView& ready, AgentId current, bool current_ready,
                          std::uint64_t, std::uint32_t) {
  ++step_;
  if (next_change_ < changes_.size() && step_ >= changes_[next_change_]) {
    ++next_change_;
    if (current_ready) {
      priority_[current] = static_cast<std::uint32_t>(changes_.size()) - next_change_;
      push(current);
    }
  }
  for (;;) {
    const std::uint64_t top = heap_.front();
    const AgentId id = id_of(top);
    const bool valid = priority_[id] == priority_of(top);
    if (valid && (id == current ? current_ready : ready.is_ready(id))) return id;
    if (valid) queued_[id] = 0;
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }
}

}  // namespace ringfence::schedule

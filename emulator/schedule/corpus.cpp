#include "emulator/schedule/corpus.hpp"

#include <algorithm>
#include <bit>

#include "emulator/schedule/random.hpp"

namespace ringfence::schedule {
namespace {

// Exactly so often up to 8 times, then by powers of two.
std::uint32_t often(std::uint32_t times) {
  const int at = times <= 8 ? static_cast<int>(times) - 1 : 5 + std::bit_width(times - 1);
  return 1u << std::min(at, 31);
}

}  // namespace

std::vector<Corpus::Pair> Corpus::pairs_of(const Outcome& outcome) {
  std::vector<Pair> out;
  out.reserve(outcome.pairs.size());
  for (const machine::Trail::Pair& p : outcome.pairs) out.push_back({p.key(), often(p.times)});
  return out;
}

bool Corpus::any_new(const std::vector<Pair>& pairs) const {
  return std::any_of(pairs.begin(), pairs.end(), [&](const Pair& p) {
    const auto it = covered_.find(p.key);
    return it == covered_.end() || (it->second & p.often) == 0;
  });
}

void Corpus::cover(const std::vector<Pair>& pairs) {
  for (const Pair& p : pairs) covered_[p.key] |= p.often;
}

void Corpus::begin(const Outcome& of_default) {
  const std::lock_guard lock(mutex_);
  cover(pairs_of(of_default));
}

void Corpus::choose(std::uint64_t n, RunSpec& run, const std::function<bool()>& give_up) {
  if (n < given_.size()) {
    run.strategy.kind = StrategySpec::Kind::replay;
    run.decisions = given_[n];
    return;
  }
  const std::uint64_t block = n / kBlock;
  if (block < 2) return;
  std::unique_lock lock(mutex_);
  while (kept_before_.size() < block - 1) {
    if (give_up()) return;
    merged_.wait_for(lock, std::chrono::milliseconds(50));
  }
  const std::size_t size = kept_before_[block - 2];
  Random random(mix64(run.strategy.seed) ^ 0x6d7574616e746f66u);
  if (size == 0 || random.below(4) != 0) return;
  // Later ones have more that is rare.
  const auto n_kept = static_cast<std::uint32_t>(size);
  const std::uint32_t which = std::max(random.below(n_kept), random.below(n_kept));
  run.strategy.kind = StrategySpec::Kind::mutant;
  run.decisions = kept_[which].decisions;
}

void Corpus::ended(std::uint64_t n, const Outcome& outcome) {
  std::vector<Pair> pairs = pairs_of(outcome);
  const std::lock_guard lock(mutex_);
  Block& block = blocks_[n / kBlock];
  // What is no news now is none when its block is merged.
  const bool whole = outcome.end == RunEnd::complete && outcome.findings.empty();
  if (whole && outcome.decisions.size() <= kMostOfOne && any_new(pairs)) {
    block.fresh.emplace(
        n, Ended{std::move(pairs),
                 {n, outcome.decisions, outcome.digest, outcome.points, outcome.steps}});
  }
  if (++block.ended < kBlock) return;
  while (!blocks_.empty() && blocks_.begin()->first == kept_before_.size() &&
         blocks_.begin()->second.ended == kBlock) {
    merge(blocks_.begin()->second);
    blocks_.erase(blocks_.begin());
    kept_before_.push_back(kept_.size());
  }
  merged_.notify_all();
}

void Corpus::merge(Block& block) {
  for (auto& [n, ended] : block.fresh) {
    if (!any_new(ended.pairs)) continue;
    const std::size_t more = ended.schedule.decisions.size();
    if (decisions_ + more > kMostDecisions) continue;
    cover(ended.pairs);
    decisions_ += more;
    kept_.push_back(std::move(ended.schedule));
  }
}

std::vector<KeptSchedule> Corpus::finish() {
  const std::lock_guard lock(mutex_);
  for (auto& [number, block] : blocks_) merge(block);
  blocks_.clear();
  std::vector<KeptSchedule> out;
  for (const KeptSchedule& k : kept_) {
    if (k.number >= given_.size()) out.push_back(k);
  }
  return out;
}

}  // namespace ringfence::schedule

#include "emulator/schedule/corpus.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "emulator/schedule/random.hpp"

namespace ringfence::schedule {
namespace {

// Exactly so often up to 8 times, then by powers of two.
std::uint32_t often(std::uint32_t times) {
  const int at = times <= 8 ? static_cast<int>(times) - 1 : 5 + std::bit_width(times - 1);
  return 1u << std::min(at, 31);
}

}  // namespace

std::vector<Corpus::Shown> Corpus::shown_by(const Outcome& outcome) {
  std::vector<Shown> out;
  out.reserve(outcome.pairs.size() + outcome.reads.size());
  for (const machine::Trail::Pair& p : outcome.pairs) {
    out.push_back({p.key(), often(p.times), false});
  }
  for (const std::uint64_t read : outcome.reads) out.push_back({read, 1, true});
  return out;
}

bool Corpus::is_new(const Shown& s) const {
  const auto it = index_.find(s.key);
  if (it == index_.end()) return !s.read || reads_ < kMostReads;
  return (covered_[it->second].often & s.often) == 0;
}

void Corpus::cover(const std::vector<Shown>& shown, std::uint32_t first) {
  for (const Shown& s : shown) {
    auto it = index_.find(s.key);
    if (it == index_.end()) {
      if (s.read && reads_ >= kMostReads) continue;
      reads_ += s.read;
      it = index_.emplace(s.key, static_cast<std::uint32_t>(covered_.size())).first;
      covered_.push_back({0, first, 0, {}});
    }
    covered_[it->second].often |= s.often;
  }
}

void Corpus::begin(const Outcome& of_default) {
  const std::lock_guard lock(mutex_);
  cover(shown_by(of_default), kNobody);
}

void Corpus::choose(std::uint64_t n, RunSpec& run, const std::function<bool()>& give_up) {
  const std::uint64_t block = n / kBlock;
  std::unique_lock lock(mutex_);
  while (block >= 2 && known_.size() < block - 1) {
    if (give_up()) return;
    merged_.wait_for(lock, std::chrono::milliseconds(50));
  }
  if (n < given_.size()) {
    run.strategy.kind = StrategySpec::Kind::replay;
    run.decisions = given_[n];
    return;
  }
  if (block < 2) return;
  const Known& known = known_[block - 2];
  Random random(mix64(run.strategy.seed) ^ 0x6d7574616e746f66u);
  if (known.kept == 0 || random.below(4) != 0) return;
  const auto n_kept = static_cast<std::uint32_t>(known.kept);
  std::uint32_t which;
  if (!known.rarest.empty() && random.below(2) == 0) {
    which = known.rarest[random.below(static_cast<std::uint32_t>(known.rarest.size()))];
  } else {
    // Later ones have more that is rare.
    which = std::max(random.below(n_kept), random.below(n_kept));
  }
  run.strategy.kind = StrategySpec::Kind::mutant;
  run.decisions = kept_[which].decisions;
}

void Corpus::ended(std::uint64_t n, const Outcome& outcome) {
  std::vector<Shown> shown = shown_by(outcome);
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = n / kBlock;
  Block& block = blocks_[number];
  const bool whole = outcome.end == RunEnd::complete && outcome.findings.empty() &&
                     outcome.decisions.size() <= kMostOfOne;
  if (whole) {
    // What is no news now is none when its block is merged. What is covered is counted now, what is
    // not then.
    std::erase_if(shown, [&](const Shown& s) {
      if (is_new(s)) return false;
      const auto it = index_.find(s.key);
      if (it != index_.end()) ++covered_[it->second].runs_of_block[number % 2];
      return true;
    });
    if (!shown.empty()) {
      block.fresh.emplace(
          n, Ended{std::move(shown),
                   {n, outcome.decisions, outcome.digest, outcome.points, outcome.steps}});
    }
  }
  if (++block.ended < kBlock) return;
  while (!blocks_.empty() && blocks_.begin()->first == known_.size() &&
         blocks_.begin()->second.ended == kBlock) {
    merge(blocks_.begin()->first, blocks_.begin()->second);
    blocks_.erase(blocks_.begin());
    known_.push_back({kept_.size(), rarest()});
  }
  merged_.notify_all();
}

void Corpus::merge(std::uint64_t number, Block& block) {
  for (Covered& c : covered_) c.runs += std::exchange(c.runs_of_block[number % 2], 0);
  for (auto& [n, ended] : block.fresh) {
    const auto any_new = [&](bool read) {
      return std::any_of(ended.shown.begin(), ended.shown.end(),
                         [&](const Shown& s) { return s.read == read && is_new(s); });
    };
    ended.schedule.new_pair = any_new(false);
    const std::size_t more = ended.schedule.decisions.size();
    const bool keep = ended.schedule.new_pair ? decisions_ + more <= kMostDecisions
                                              : any_new(true) && for_reads_ + more <= kMostForReads;
    if (keep) {
      cover(ended.shown, static_cast<std::uint32_t>(kept_.size()));
      decisions_ += more;
      if (!ended.schedule.new_pair) for_reads_ += more;
      kept_.push_back(std::move(ended.schedule));
    }
    for (const Shown& s : ended.shown) {
      if (const auto it = index_.find(s.key); it != index_.end()) ++covered_[it->second].runs;
    }
  }
}

std::vector<std::uint32_t> Corpus::rarest() const {
  std::vector<std::uint64_t> least(kept_.size(), ~std::uint64_t{0});
  for (const Covered& c : covered_) {
    if (c.first != kNobody) least[c.first] = std::min(least[c.first], c.runs);
  }
  std::vector<std::uint32_t> order(kept_.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t n = std::min(order.size(), kRarest);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      return std::pair(least[a], a) < std::pair(least[b], b);
                    });
  order.resize(n);
  return order;
}

std::vector<KeptSchedule> Corpus::finish() {
  const std::lock_guard lock(mutex_);
  for (auto& [number, block] : blocks_) merge(number, block);
  blocks_.clear();
  std::vector<KeptSchedule> out;
  for (const KeptSchedule& k : kept_) {
    if (k.number >= given_.size() && k.new_pair) out.push_back(k);
  }
  return out;
}

}  // namespace ringfence::schedule

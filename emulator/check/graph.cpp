#include "emulator/check/graph.hpp"

#include <algorithm>

namespace ringfence::check {

bool Prefix::has(const Prefix& o) const {
  if (o.counts_ == nullptr || counts_ == o.counts_) return true;
  for (std::uint32_t a = 0; a < o.counts_->size(); ++a) {
    const std::uint32_t count = (*o.counts_)[a];
    if (count > 0 && !has(Name{a, count - 1})) return false;
  }
  return true;
}

Prefix::Counts& Prefix::own() {
  if (counts_ == nullptr) {
    counts_ = std::make_shared<Counts>();
  } else if (counts_.use_count() > 1) {
    counts_ = std::make_shared<Counts>(*counts_);
  }
  return *counts_;
}

void Prefix::join(const Prefix& o) {
  if (o.counts_ == nullptr || counts_ == o.counts_) return;
  if (counts_ == nullptr) {
    counts_ = o.counts_;
    return;
  }
  const Counts &mine = *counts_, &its = *o.counts_;
  // In pieces of a size that compilers make vectors of.
  constexpr std::size_t kPiece = 16;
  const std::size_t both = std::min(mine.size(), its.size()), whole = both - both % kPiece;
  std::uint32_t more = its.size() > both ? 1 : 0, less = mine.size() > both ? 1 : 0;
  std::size_t i = 0;
  for (; i < whole && (more == 0 || less == 0); i += kPiece) {
    const std::uint32_t *const x = mine.data() + i, *const y = its.data() + i;
    for (std::size_t k = 0; k < kPiece; ++k) more |= y[k] > x[k] ? 1U : 0U;
    for (std::size_t k = 0; k < kPiece; ++k) less |= y[k] < x[k] ? 1U : 0U;
  }
  for (; i < both; ++i) {
    more |= its[i] > mine[i] ? 1U : 0U;
    less |= its[i] < mine[i] ? 1U : 0U;
  }
  if (more == 0) return;
  if (less == 0) {
    counts_ = o.counts_;
    return;
  }
  Counts& counts = own();
  if (counts.size() < its.size()) counts.resize(its.size());
  for (i = 0; i < whole; i += kPiece) {
    std::uint32_t* const x = counts.data() + i;
    const std::uint32_t* const y = its.data() + i;
    for (std::size_t k = 0; k < kPiece; ++k) x[k] = std::max(x[k], y[k]);
  }
  for (; i < its.size(); ++i) counts[i] = std::max(counts[i], its[i]);
}

void Prefix::add(const Name& n) {
  if (has(n)) return;
  Counts& counts = own();
  if (counts.size() <= n.agent) counts.resize(n.agent + 1);
  counts[n.agent] = n.nth + 1;
}

bool overtakes(const Event& late, const Event& early) {
  return std::find(late.after.begin(), late.after.end(), early.self) != late.after.end();
}

}  // namespace ringfence::check

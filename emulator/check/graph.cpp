#include "emulator/check/graph.hpp"

#include <algorithm>

namespace ringfence::check {

bool Prefix::has(const Prefix& o) const {
  for (std::uint32_t a = 0; a < o.counts_.size(); ++a) {
    if (o.counts_[a] > 0 && !has(Name{a, o.counts_[a] - 1})) return false;
  }
  return true;
}

void Prefix::join(const Prefix& o) {
  if (counts_.size() < o.counts_.size()) counts_.resize(o.counts_.size());
  for (std::size_t i = 0; i < o.counts_.size(); ++i) {
    counts_[i] = std::max(counts_[i], o.counts_[i]);
  }
}

void Prefix::add(const Name& n) {
  if (counts_.size() <= n.agent) counts_.resize(n.agent + 1);
  counts_[n.agent] = std::max(counts_[n.agent], n.nth + 1);
}

bool overtakes(const Event& late, const Event& early) {
  return std::find(late.after.begin(), late.after.end(), early.self) != late.after.end();
}

}  // namespace ringfence::check

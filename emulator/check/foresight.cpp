#include "emulator/check/foresight.hpp"

#include <algorithm>
#include <utility>

namespace ringfence::check {

const Foreseen* find(const Foresight& foresight, const Place& read, const CellKey& cell) {
  for (const Foreseen& f : foresight) {
    if (f.read == read && f.cell == cell) return &f;
  }
  return nullptr;
}

bool Foresights::propose(const Foresight& from, std::uint32_t corrections,
                         const Proposal& proposal) {
  const Foreseen& f = proposal.what;
  Foresight all = from;
  const auto same = [&](const Foreseen& x) { return x.read == f.read && x.cell == f.cell; };
  const bool correction = std::erase_if(all, same) > 0;
  all.insert(std::upper_bound(all.begin(), all.end(), f), f);
  Foresight any = all;
  std::find_if(any.begin(), any.end(), same)->value = 0;
  if (proposal.seed && some_value_.contains(any)) return true;
  if (known_.contains(all)) return true;
  if (correction && corrections >= kCorrections) return false;
  Next next{std::make_shared<const Foresight>(all), corrections + (correction ? 1 : 0)};
  if (proposal.seed) {
    seeds_.emplace_back(std::move(next), std::move(any));
    return true;
  }
  known_.insert(std::move(all));
  some_value_.insert(std::move(any));
  plain_.push_back(std::move(next));
  return true;
}

std::optional<Foresights::Next> Foresights::next() {
  while (plain_.empty() && !seeds_.empty()) {
    auto [next, any] = std::move(seeds_.front());
    seeds_.pop_front();
    if (!some_value_.insert(std::move(any)).second) continue;
    if (known_.insert(*next.foresight).second) plain_.push_back(std::move(next));
  }
  if (plain_.empty()) return std::nullopt;
  Next next = std::move(plain_.front());
  plain_.pop_front();
  return next;
}

}  // namespace ringfence::check

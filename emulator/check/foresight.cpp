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

Foresight corrected(Foresight foresight, const std::vector<Foreseen>& by) {
  for (const Foreseen& f : by) {
    for (Foreseen& x : foresight) {
      if (x.read == f.read && x.cell == f.cell) x = f;
    }
  }
  std::sort(foresight.begin(), foresight.end());
  return foresight;
}

void Foresights::propose(const Next& from, const Foreseen& more) {
  Foresight all = *from.foresight;
  all.insert(std::upper_bound(all.begin(), all.end(), more), more);
  Foresight writes = all;
  for (Foreseen& f : writes) f.value = 0;
  std::sort(writes.begin(), writes.end());
  if (!writes_.insert(std::move(writes)).second) return;
  propose_values({std::make_shared<const Foresight>(std::move(all)), from.corrections});
}

void Foresights::propose_values(const Next& values) {
  if (known_.insert(*values.foresight).second) due_.push_back(values);
}

std::optional<Foresights::Next> Foresights::next() {
  if (due_.empty()) return std::nullopt;
  Next next = std::move(due_.front());
  due_.pop_front();
  return next;
}

}  // namespace ringfence::check

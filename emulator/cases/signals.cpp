#include "emulator/cases/signals.hpp"

#include <algorithm>

namespace ringfence::cases {
namespace {

constexpr std::uint64_t kWord = 4;
constexpr std::uint64_t kMostBytes = 4096;                  // of a memory that holds signals
constexpr std::size_t kMostEntries = std::size_t{1} << 20;  // 12 MiB

}  // namespace

void Signals::follow(const std::vector<std::uint32_t>& regions, std::uint64_t bytes) {
  Memory m;
  m.regions = regions;
  m.words = (bytes + kWord - 1) / kWord;
  m.first = entries_;
  const std::size_t entries = (regions.size() * m.words + 1) * ranks_;
  if (bytes > kMostBytes || entries_ + entries > kMostEntries) return;
  entries_ += entries;
  for (std::uint32_t r = 0; r < regions.size(); ++r) {
    if (regions[r] >= memory_of_.size()) {
      memory_of_.resize(regions[r] + 1, -1);
      owner_of_.resize(regions[r] + 1, 0);
    }
    memory_of_[regions[r]] = static_cast<std::int32_t>(memories_.size());
    owner_of_[regions[r]] = r;
  }
  memories_.push_back(std::move(m));
}

const Signals::Memory* Signals::of(std::uint32_t region) const {
  if (entry_ == nullptr || region >= memory_of_.size() || memory_of_[region] < 0) return nullptr;
  return &memories_[static_cast<std::size_t>(memory_of_[region])];
}

void Signals::count(Entry& e, bool adds, std::uint32_t block, std::uint16_t site,
                    std::uint32_t run) {
  if (e.run != run) e.adds = e.stores = 0;
  std::uint16_t& n = adds ? e.adds : e.stores;
  if (n != 0xFFFF) ++n;
  e.run = run;
  e.block = static_cast<std::uint16_t>(block);
  e.site = site;
}

void Signals::wrote(std::uint32_t rank, std::uint32_t region, std::uint64_t offset,
                    std::uint64_t bytes, bool adds, std::uint32_t block, std::uint16_t site,
                    std::uint32_t run) {
  const Memory* m = of(region);
  if (m == nullptr) return;
  const std::uint64_t last = std::min((offset + bytes - 1) / kWord, m->words - 1);
  for (std::uint64_t word = offset / kWord; word <= last; ++word) {
    count(at(*m, owner_of_[region], word, rank), adds, block, site, run);
  }
  count(total(*m, rank), adds, block, site, run);
}

std::vector<Missing> Signals::missing(std::uint32_t region, std::uint64_t offset) const {
  std::vector<Missing> out;
  const Memory* m = of(region);
  if (m == nullptr || offset / kWord >= m->words) return out;
  const std::uint64_t word = offset / kWord;
  const std::uint32_t owner = owner_of_[region];
  const auto here = [&](std::uint32_t r) -> const Entry& { return at(*m, owner, word, r); };
  const auto name = [&](std::uint32_t r, const Entry& e) {
    out.push_back({r, e.run != 0, e.block, e.site});
  };
  // Writes at the same place of the owner's peers, in this run.
  const auto elsewhere = [&](std::uint32_t r) -> const Entry* {
    for (std::uint32_t replica = 0; replica < m->regions.size(); ++replica) {
      const Entry& e = at(*m, replica, word, r);
      if (replica != owner && e.count(run_) != 0) return &e;
    }
    return nullptr;
  };
  std::vector<std::uint32_t> writers;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if (here(r).run != 0) writers.push_back(r);
  }
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if (here(r).run != 0 || r == owner) continue;
    if (const Entry* e = elsewhere(r)) name(r, *e);
  }
  if (!out.empty()) return out;
  std::vector<std::uint32_t> others = writers;
  std::erase(others, owner);
  if (others.empty() && !writers.empty()) others = writers;
  if (others.size() == 1) {
    name(others[0], here(others[0]));
    return out;
  }
  if (others.size() > 1) {
    // The owner, too, adds to a counter that it waits for; what it stores there is no signal.
    std::vector<std::uint32_t> adders;
    for (const std::uint32_t r : writers) {
      if (r != owner || here(r).adds != 0) adders.push_back(r);
    }
    const auto times = [&](std::uint32_t r) {
      return here(r).run == run_ ? std::uint32_t{r == owner ? here(r).adds : here(r).count(run_)}
                                 : 0U;
    };
    const auto [least, most] =
        std::minmax_element(adders.begin(), adders.end(),
                            [&](std::uint32_t a, std::uint32_t b) { return times(a) < times(b); });
    if (times(*least) == times(*most)) return out;
    for (const std::uint32_t r : adders) {
      if (times(r) == times(*least)) name(r, here(r));
    }
    return out;
  }
  // Nobody, at any rank: who has not begun to signal?
  std::uint32_t silent = 0;
  for (std::uint32_t r = 0; r < ranks_; ++r) silent += total(*m, r).count(run_) == 0 ? 1U : 0U;
  if (silent == 0 || silent == ranks_) return out;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if (total(*m, r).count(run_) == 0) out.push_back({r, false, 0, 0});
  }
  return out;
}

}  // namespace ringfence::cases

#include "emulator/cases/space.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace ringfence::cases {

std::uint64_t Space::add(Mapping mapping) {
  const std::uint64_t pages = (mapping.bytes + (1ULL << kPageBits) - 1) >> kPageBits;
  mapping.address = kBase + (std::uint64_t{pages_.size()} << kPageBits);
  pages_.resize(pages_.size() + pages + 1, -1);
  return add_at(std::move(mapping));
}

std::uint64_t Space::reserve(std::uint64_t distance, std::uint64_t count) {
  std::uint64_t first = kBase + (std::uint64_t{pages_.size()} << kPageBits);
  if (std::has_single_bit(distance)) first = (first + distance - 1) / distance * distance;
  pages_.resize(((first - kBase + distance * count) >> kPageBits) + 1, -1);
  return first;
}

void Space::keep(std::uint64_t address, std::uint64_t bytes) {
  const auto end =
      static_cast<std::size_t>((address + bytes - kBase + kPageBytes - 1) >> kPageBits);
  if (pages_.size() < end + 1) pages_.resize(end + 1, -1);
}

const Mapping* Space::overlap(std::uint64_t address, std::uint64_t bytes) const {
  for (std::uint64_t at = address; at < address + bytes; at += kPageBytes) {
    if (const Mapping* const there = find(at)) return there;
  }
  return nullptr;
}

std::uint64_t Space::add_at(Mapping mapping) {
  const auto first = static_cast<std::size_t>((mapping.address - kBase) >> kPageBits);
  const std::uint64_t pages = (mapping.bytes + (1ULL << kPageBits) - 1) >> kPageBits;
  std::fill_n(pages_.begin() + static_cast<std::ptrdiff_t>(first), pages,
              static_cast<std::int32_t>(mappings_.size()));
  mappings_.push_back(std::move(mapping));
  return mappings_.back().address;
}

}  // namespace ringfence::cases

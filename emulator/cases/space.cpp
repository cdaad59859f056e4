#include "emulator/cases/space.hpp"

#include <utility>

namespace ringfence::cases {

std::uint64_t Space::add(Mapping mapping) {
  mapping.address = kBase + (std::uint64_t{pages_.size()} << kPageBits);
  const auto index = static_cast<std::int32_t>(mappings_.size());
  const std::uint64_t pages = (mapping.bytes + (1ULL << kPageBits) - 1) >> kPageBits;
  pages_.insert(pages_.end(), pages, index);
  pages_.push_back(-1);
  mappings_.push_back(std::move(mapping));
  return mappings_.back().address;
}

}  // namespace ringfence::cases

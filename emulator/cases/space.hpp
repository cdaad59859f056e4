#pragma once
// The addresses that kernels see: every replica of every memory at an address of its own, and the
// multicast address of each symmetric memory, which names one location on each rank.

#include <cstdint>
#include <string>
#include <vector>

namespace ringfence::cases {

struct Mapping {
  std::string name;  // "data of rank 1", "data (multicast)"
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  bool multicast = false;
  std::vector<std::uint32_t> regions;       // numbers of the program's regions: one, or one a rank
  std::uint32_t rank = 0;                   // whose it is; of the multicast address none
  std::uint64_t reach = ~std::uint64_t{0};  // the ranks whose kernels may access it, a bit each
};

class Space {
 public:
  static constexpr std::uint64_t kBase = 0x1000000000ULL;
  static constexpr std::uint64_t kPageBytes = std::uint64_t{1} << 21;

  // Returns the address: a multiple of 2 MiB, with an unmapped page behind the mapping.
  std::uint64_t add(Mapping mapping);
  // An address for `count` mappings that are `distance` apart, itself a multiple of `distance` if
  // that is a power of two; and one of them, at its address.
  std::uint64_t reserve(std::uint64_t distance, std::uint64_t count);
  std::uint64_t add_at(Mapping mapping);
  // What add and reserve leave alone from then on: for a mapping whose address is given.
  void keep(std::uint64_t address, std::uint64_t bytes);
  // A mapping that has some of these pages; null: there is none.
  const Mapping* overlap(std::uint64_t address, std::uint64_t bytes) const;
  // The mapping whose pages hold the address; null if there is none. An address behind its end but
  // on its last page is found too.
  const Mapping* find(std::uint64_t address) const {
    const std::uint64_t page = (address - kBase) >> kPageBits;
    if (page >= pages_.size() || pages_[page] < 0) return nullptr;
    return &mappings_[static_cast<std::size_t>(pages_[page])];
  }

  // The mapping that the address is closest to; null where none is within 4 GiB.
  const Mapping* nearest(std::uint64_t address) const;

 private:
  static constexpr unsigned kPageBits = 21;
  static_assert(kPageBytes == std::uint64_t{1} << kPageBits);

  std::vector<Mapping> mappings_;
  std::vector<std::int32_t> pages_;  // page -> mapping, -1: none
};

}  // namespace ringfence::cases

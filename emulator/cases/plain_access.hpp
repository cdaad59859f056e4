#pragma once
// Internal to the cases: weak accesses of many bytes at once, by plain kernels, tasks of the host
// and bulk copies.

#include <cstdint>

#include "emulator/machine/access.hpp"

namespace ringfence::cases {

// `bits`: the size of an access and its offset, or-ed. Words where both are multiples of 4, else
// halves or bytes, so that what the kernel accesses may have any size.
inline std::uint8_t plain_element(std::uint64_t bits) {
  return bits % 4 == 0 ? 4 : bits % 2 == 0 ? 2 : 1;
}

inline machine::Access plain_access(std::uint16_t site, std::uint64_t bits) {
  return {machine::Order::weak,
          machine::Scope::sys,
          plain_element(bits),
          machine::Proxy::generic,
          false,
          site};
}

}  // namespace ringfence::cases

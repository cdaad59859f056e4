#pragma once

#include <cstdint>

namespace ringfence::trace {

// An instruction that is missing beside another, as far as the events tell.
struct Hint {
  enum class What : std::uint8_t {
    barrier,
    fence,
    proxy_fence,
    bulk_wait,  // cp.async.bulk.wait_group
    copy_wait,  // cp.async.wait_group
    grid_wait   // griddepcontrol.wait
  } what = What::barrier;
  std::uint16_t site = 0;
  bool behind = false;  // else before it
  friend bool operator==(const Hint&, const Hint&) = default;
};

}  // namespace ringfence::trace

#pragma once

#include <cstdint>

namespace ringfence::trace {

// An instruction that is missing beside another, or what is to be done with a memory, as far as the
// events tell.
struct Hint {
  enum class What : std::uint8_t {
    barrier,
    fence,
    proxy_fence,
    bulk_wait,          // cp.async.bulk.wait_group
    bulk_wait_barrier,  // the same, and a block barrier behind it
    copy_wait,          // cp.async.wait_group
    grid_wait,          // griddepcontrol.wait
    init,               // of the memory
    clear,              // of the memory, between calls or launches
    strong              // the access is a flag's: it has to be no plain one
  } what = What::barrier;
  std::uint16_t site = 0;
  bool behind = false;       // else before it
  std::uint32_t region = 0;  // of what concerns a memory
  friend bool operator==(const Hint&, const Hint&) = default;
};

}  // namespace ringfence::trace

#pragma once
// The host's accesses to memory that kernels see too, while something is pending: its pages are
// protected then, a fault is an access, and what it accessed is told to the engine with the next
// call.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/exec/wire.hpp"

namespace ringfence::exec::client {

// Memory that is watched from now on, or no more. Not on machines other than x86-64.
void watch(std::uintptr_t begin, std::size_t bytes);
void unwatch(std::uintptr_t begin);

// Whether accesses count from now on.
void guard(bool on);

// Those since the last time, each word once in a row.
std::vector<HostAccess> take_accesses();

}  // namespace ringfence::exec::client

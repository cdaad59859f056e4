// Random kernels for the oracles.
#pragma once

#include <cstdint>

#include "tests/oracle/kernel.hpp"

namespace ringfence::oracle {

struct GeneratorOptions {
  int min_events = 3;
  int max_events = 9;
  // What a kernel may have; each one goes without some of it.
  bool shared = true;    // locations in shared memory
  bool barriers = true;  // counted ones
  bool mbarriers = true;
  bool clusters = true;
  bool forms = true;       // .relaxed arrivals and waits, and scopes of these that are too narrow
  bool loops = true;       // polls; waits for mbarriers are none
  bool votes = true;       // and bar.red: what hands values from lane to lane or warp to warp
  bool copies = false;     // bulk copies, their groups and proxy fences
  bool dependent = false;  // every kernel is two launches of which the second is dependent
  // Threads are lanes, two of a warp, which go apart at a branch; without what waits for a warp.
  bool paired = false;
};

// The kernel of a seed: 2 to 4 warps. It was made along one order in which it comes to its end, so
// at least one execution is complete; others may wait for ever.
Kernel generate(std::uint64_t seed, const GeneratorOptions& options = {});

}  // namespace ringfence::oracle

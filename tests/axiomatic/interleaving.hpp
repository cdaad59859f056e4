// Sequential consistency by brute force: the outcomes of all interleavings. A yardstick for the
// axiomatic checker, written without any of its parts.
#pragma once

#include <set>

#include "tests/axiomatic/check.hpp"

namespace ringfence::axiomatic {

// Programs without loops. Fences do nothing; a barrier waits for its cta's threads with the same
// barrier (each at most once a thread).
std::set<Outcome> interleavings(const Program& program);

}  // namespace ringfence::axiomatic

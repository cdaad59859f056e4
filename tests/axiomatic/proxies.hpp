// Proxy-preserved base causality (PTX manual, 8.9.5; with the constant, texture and surface
// proxies: Lustig, Cooksey, Giroux, "Mixed-Proxy Extensions for the NVIDIA PTX Memory Consistency
// Model", 2022). For accesses x and y of one location, x before y in base causality:
//   both generic, of one virtual address; or
//   of one proxy, one block and one virtual address; or
//   along the path, in this order: unless x is generic, a fence of x's proxy in x's block; if the
//   virtual addresses differ, an alias fence; unless y is generic, a fence of y's proxy in y's
//   block.
// The async proxy, for which the manual's list has no entry (what it says stands in its sections
// "Async proxy" and "Completion mechanisms"): an asynchronous x precedes what is behind its
// observed end; a generic write x precedes an asynchronous y if a fence.proxy.async is anywhere on
// the path.
#pragma once

#include "tests/axiomatic/skeleton.hpp"

namespace ringfence::axiomatic {

// The pairs of `base`, which is closed, that hold so; of others than accesses of one location none.
Relation preserved(const Skeleton& skeleton, const Relation& base);

}  // namespace ringfence::axiomatic

// Makes a kernel that shows something smaller while it still does.
#pragma once

#include <functional>

#include "tests/oracle/kernel.hpp"

namespace ringfence::oracle {

// `shows` holds of the kernel, and of the result, which no single step makes smaller: leaving out a
// step, or an order, scope or kind for a simpler one. Not asked of more than `most` kernels.
Kernel shrink(const Kernel& kernel, const std::function<bool(const Kernel&)>& shows,
              int most = 400);

}  // namespace ringfence::oracle

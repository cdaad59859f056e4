// Test cases that need a GPU say why they were skipped where there is none.
#pragma once

#include <doctest/doctest.h>

#include "cuda/host/device.hpp"

namespace ringfence::tests {

inline bool gpu_missing() {
  const auto all = cuda::devices();
  if (all.empty()) {
    MESSAGE("not run: this machine has no CUDA device");
    return true;
  }
  if (all.front().major != 9) {
    MESSAGE("not run: the kernels were compiled for sm_90a, and this is sm_" << all.front().major
                                                                             << all.front().minor);
    return true;
  }
  return false;
}

}  // namespace ringfence::tests

// How a launch meets the one before it on its stream.
#pragma once

namespace ringfence::cuda::ptx {

/// First statement of a kernel that may be launched as Launch::dependent: lets the launch after
/// this one take up free multiprocessors, then waits until the launch before has ended and its
/// writes are visible. Launched otherwise, there is nothing to wait for. All threads.
__device__ __forceinline__ void follow_launch_before() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile(
      "griddepcontrol.launch_dependents;\n"
      "griddepcontrol.wait;" ::
          : "memory");
#endif
}

}  // namespace ringfence::cuda::ptx

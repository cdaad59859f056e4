// How a launch meets the one before it on its stream.
#pragma once

namespace ringfence::cuda::ptx {

/// First statement of a kernel that may be launched as Launch::dependent: lets the launch after
/// this one take up free multiprocessors.
__device__ __forceinline__ void let_next_launch_begin() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until the launch before has ended and its writes are visible; a kernel has touched nothing
/// but its parameters before. Launched otherwise, there is nothing to wait for. All threads.
__device__ __forceinline__ void wait_for_launch_before() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Both at once.
__device__ __forceinline__ void follow_launch_before() {
  let_next_launch_begin();
  wait_for_launch_before();
}

}  // namespace ringfence::cuda::ptx

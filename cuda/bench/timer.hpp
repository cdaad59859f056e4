// Times work on the members' streams: graphs of several calls, CUDA events around each replay, the
// median.
#pragma once

#include <functional>
#include <vector>

#include "cuda/host/world.hpp"

namespace ringfence::cuda {

struct Timing {
  double median_us = 0;  // a call
  double least_us = 0;
  double largest_us = 0;
};

/// `work` enqueues one call on the given streams; it is captured `iterations` times into a graph a
/// stream, where capture is possible (captured), else enqueued directly. Collective: the result is
/// the largest of all processes' and members'.
Timing time_calls(const World& world, const std::vector<cudaStream_t>& streams, int iterations,
                  int samples, bool captured, const std::function<void()>& work);

}  // namespace ringfence::cuda

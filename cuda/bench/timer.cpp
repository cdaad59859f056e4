#include "cuda/bench/timer.hpp"

#include <algorithm>

#include "cuda/host/check.hpp"

namespace ringfence::cuda {
namespace {

struct Lane {
  cudaStream_t stream = nullptr;
  int device = 0;
  cudaGraphExec_t graph = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  ~Lane() {
    if (graph != nullptr) (void)cudaGraphExecDestroy(graph);
    if (begin != nullptr) (void)cudaEventDestroy(begin);
    if (end != nullptr) (void)cudaEventDestroy(end);
  }
};

}  // namespace

Timing time_calls(const World& world, const std::vector<cudaStream_t>& streams, int iterations,
                  int samples, bool captured, const std::function<void()>& work) {
  constexpr int kWarmUp = 3;
  std::vector<Lane> lanes(streams.size());
  for (size_t i = 0; i < lanes.size(); ++i) {
    lanes[i].stream = streams[i];
    for (const World::Member& m : world.members()) {
      if (m.stream == streams[i]) lanes[i].device = m.device;
    }
    const DeviceScope scope(lanes[i].device);
    check(cudaEventCreate(&lanes[i].begin), "cudaEventCreate");
    check(cudaEventCreate(&lanes[i].end), "cudaEventCreate");
  }
  work();  // modules load outside of the capture
  world.barrier();
  if (captured) {
    for (Lane& l : lanes) {
      const DeviceScope scope(l.device);
      check(cudaStreamBeginCapture(l.stream, cudaStreamCaptureModeThreadLocal), "capture");
    }
    for (int i = 0; i < iterations; ++i) work();
    // All captures end before anything is instantiated, which a capture of this thread forbids.
    std::vector<cudaGraph_t> graphs;
    for (Lane& l : lanes) {
      const DeviceScope scope(l.device);
      cudaGraph_t graph = nullptr;
      check(cudaStreamEndCapture(l.stream, &graph), "capture");
      graphs.push_back(graph);
    }
    for (size_t i = 0; i < lanes.size(); ++i) {
      const DeviceScope scope(lanes[i].device);
      const cudaError_t made = cudaGraphInstantiate(&lanes[i].graph, graphs[i], 0);
      (void)cudaGraphDestroy(graphs[i]);
      check(made, "cudaGraphInstantiate");
    }
  }
  std::vector<double> times;
  for (int sample = 0; sample < kWarmUp + samples; ++sample) {
    world.barrier();
    for (Lane& l : lanes) {
      const DeviceScope scope(l.device);
      check(cudaEventRecord(l.begin, l.stream), "cudaEventRecord");
    }
    if (captured) {
      for (Lane& l : lanes) {
        const DeviceScope scope(l.device);
        check(cudaGraphLaunch(l.graph, l.stream), "cudaGraphLaunch");
      }
    } else {
      for (int i = 0; i < iterations; ++i) work();
    }
    double longest = 0;
    for (Lane& l : lanes) {
      const DeviceScope scope(l.device);
      check(cudaEventRecord(l.end, l.stream), "cudaEventRecord");
    }
    for (Lane& l : lanes) {
      const DeviceScope scope(l.device);
      check(cudaEventSynchronize(l.end), "the timed calls");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, l.begin, l.end), "cudaEventElapsedTime");
      longest = std::max(longest, static_cast<double>(ms) * 1000 / iterations);
    }
    if (sample >= kWarmUp) times.push_back(longest);
  }
  std::sort(times.begin(), times.end());
  return {world.largest(times[times.size() / 2]), world.largest(times.front()),
          world.largest(times.back())};
}

}  // namespace ringfence::cuda

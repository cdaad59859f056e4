#include "cuda/host/fused_operator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/host/check.hpp"
#include "cuda/host/error.hpp"

namespace ringfence::cuda {

/// The members that one stream serves: one, or all virtual ranks. Owns the second stream, the
/// events between the two, the product's plans and the graphs.
struct FusedOperator::Group {
  int device = 0;
  cudaStream_t compute = nullptr;  // the member's
  cudaStream_t communicate = nullptr;
  std::vector<cudaEvent_t> ready;  // wave w's product is done
  cudaEvent_t done = nullptr;      // all waves have been communicated
  std::vector<size_t> members;
  std::unique_ptr<Product> product;  // with all multiprocessors: the first wave, nothing beside it
  std::unique_ptr<Product> beside;   // leaves the communicating blocks theirs
  std::map<int64_t, cudaGraphExec_t> graphs;

  void drop_graphs() {
    for (auto& [tokens, graph] : graphs) (void)cudaGraphExecDestroy(graph);
    graphs.clear();
  }
  ~Group() {
    drop_graphs();
    for (cudaEvent_t e : ready) (void)cudaEventDestroy(e);
    if (done != nullptr) (void)cudaEventDestroy(done);
    if (communicate != nullptr) (void)cudaStreamDestroy(communicate);
  }
};

FusedOperator::FusedOperator(const World& world, const FusedOptions& options)
    : world_(world), options_(options), tokenweave_(world, options.tokenweave) {
  options_.tokenweave = tokenweave_.options();  // with what it has chosen
  if (options_.tokenweave.launch != Launch::cooperative) {
    throw Error(ErrorCode::invalid_argument,
                "waves run beside products of another stream: their launch must be cooperative");
  }
  if (options_.inner < 1) throw Error(ErrorCode::invalid_argument, "inner must be 1 or more");
  if (options_.waves < 1) throw Error(ErrorCode::invalid_argument, "waves must be 1 or more");
  tensors_.resize(world.members().size());
  const bool together = world.kind() == World::Kind::virtual_ranks;
  for (size_t i = 0; i < world.members().size(); ++i) {
    if (together && i > 0) {
      groups_.front()->members.push_back(i);
      continue;
    }
    const World::Member& m = world.members()[i];
    const DeviceScope scope(m.device);
    auto group = std::make_unique<Group>();
    group->device = m.device;
    group->compute = m.stream;
    group->members = {i};
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
    // Communication first: its few blocks must not queue behind the product's many.
    check(cudaStreamCreateWithPriority(&group->communicate, cudaStreamNonBlocking, greatest),
          "cudaStreamCreateWithPriority");
    for (int w = 0; w < options_.waves; ++w) {
      cudaEvent_t event = nullptr;
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
      group->ready.push_back(event);
    }
    check(cudaEventCreateWithFlags(&group->done, cudaEventDisableTiming), "cudaEventCreate");
    int multiprocessors = 0;
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, m.device),
          "cudaDeviceGetAttribute");
    const int ranks = together ? world.size() : 1;
    if (options_.wave_blocks <= 0) {
      options_.wave_blocks = std::max(1, multiprocessors / 8 / ranks);
    }
    options_.wave_blocks = std::min(options_.wave_blocks, options_.tokenweave.blocks);
    const auto make_product = [&](int target) {
      return std::make_unique<Product>(m.device, options_.tokenweave.dtype, options_.inner,
                                       options_.tokenweave.hidden, target);
    };
    group->product = make_product(0);
    const int left = multiprocessors - options_.wave_blocks * ranks;
    group->beside = make_product(left > 0 ? left : 0);
    groups_.push_back(std::move(group));
  }
}

FusedOperator::~FusedOperator() = default;

void FusedOperator::set_tensors(size_t member, const FusedTensors& tensors) {
  if (tensors.x == nullptr || tensors.weight == nullptr) {
    throw Error(ErrorCode::invalid_argument, "x and weight must not be null");
  }
  tokenweave_.set_tensors(member, tensors.rest);
  tensors_[member] = tensors;
  for (auto& group : groups_) group->drop_graphs();
}

namespace {

/// Row where wave w of `waves` begins: whole multiples of 128 rows, the product's tile, where there
/// are enough.
int64_t wave_begin(int64_t tokens, int waves, int w) {
  if (w == 0) return 0;
  if (w >= waves) return tokens;
  const int64_t even = tokens * w / waves;
  const int64_t rounded = (even + 64) / 128 * 128;
  return tokens >= int64_t{128} * waves ? std::min(rounded, tokens) : even;
}

}  // namespace

void FusedOperator::prepare(int64_t tokens) {
  if (tokens < 1 || tokens > options_.tokenweave.max_tokens) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tokens {} is not in 1 .. {}", tokens, options_.tokenweave.max_tokens));
  }
  const int waves = static_cast<int>(std::min<int64_t>(options_.waves, tokens));
  for (auto& group : groups_) {
    if (group->graphs.count(tokens) != 0) continue;
    const DeviceScope scope(group->device);
    for (int w = 0; w < waves; ++w) {
      Product& product = w == 0 ? *group->product : *group->beside;
      product.prepare(wave_begin(tokens, waves, w + 1) - wave_begin(tokens, waves, w));
    }
    const size_t row_x = static_cast<size_t>(options_.inner) * 2;
    const size_t row_out = static_cast<size_t>(options_.tokenweave.hidden) * 2;
    check(cudaStreamBeginCapture(group->compute, cudaStreamCaptureModeThreadLocal), "capture");
    cudaGraph_t graph = nullptr;
    try {
      for (int w = 0; w < waves; ++w) {
        const int64_t begin = wave_begin(tokens, waves, w);
        const int64_t count = wave_begin(tokens, waves, w + 1) - begin;
        for (size_t i : group->members) {
          (w == 0 ? *group->product : *group->beside)
              .enqueue(
                  static_cast<const char*>(tensors_[i].x) + static_cast<size_t>(begin) * row_x,
                  tensors_[i].weight,
                  static_cast<char*>(tokenweave_.buffer(i)) + static_cast<size_t>(begin) * row_out,
                  count, group->compute);
        }
        check(cudaEventRecord(group->ready[static_cast<size_t>(w)], group->compute), "event");
        check(cudaStreamWaitEvent(group->communicate, group->ready[static_cast<size_t>(w)], 0),
              "event");
        std::vector<cudaStream_t> streams(world_.members().size(), nullptr);
        for (size_t i : group->members) streams[i] = group->communicate;
        tokenweave_.enqueue_members(group->members, streams, count, begin,
                                    w + 1 < waves ? options_.wave_blocks : 0);
      }
      check(cudaEventRecord(group->done, group->communicate), "event");
      check(cudaStreamWaitEvent(group->compute, group->done, 0), "event");
    } catch (...) {
      (void)cudaStreamEndCapture(group->compute, &graph);
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
      throw;
    }
    check(cudaStreamEndCapture(group->compute, &graph), "capture");
    cudaGraphExec_t executable = nullptr;
    const cudaError_t made =
        cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority);
    (void)cudaGraphDestroy(graph);
    check(made, "cudaGraphInstantiate");
    group->graphs[tokens] = executable;
  }
}

void FusedOperator::enqueue(int64_t tokens) {
  for (auto& group : groups_) {
    const auto found = group->graphs.find(tokens);
    if (found == group->graphs.end()) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("prepare({}) has not been called since the tensors were set", tokens));
    }
    const DeviceScope scope(group->device);
    check(cudaGraphLaunch(found->second, group->compute), "cudaGraphLaunch");
  }
}

void FusedOperator::enqueue_on(int64_t tokens, cudaStream_t stream) {
  if (groups_.size() != 1) {
    throw Error(ErrorCode::invalid_argument,
                "several devices in one process take their own streams: leave the stream out");
  }
  const auto found = groups_.front()->graphs.find(tokens);
  if (found == groups_.front()->graphs.end()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("prepare({}) has not been called since the tensors were set", tokens));
  }
  const DeviceScope scope(groups_.front()->device);
  check(cudaGraphLaunch(found->second, stream), "cudaGraphLaunch");
}

}  // namespace ringfence::cuda

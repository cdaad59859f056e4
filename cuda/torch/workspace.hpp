// What ringfence.torch holds for a group, a hidden size and a dtype: the ranks, their symmetric
// buffers and signal pads, and the launches of tokenweave on PyTorch's streams.
//
// Nothing here allocates or waits after the constructor, so calls may be captured into CUDA graphs.
// The transport multimem is not to be had: nothing here makes a multicast object.
#pragma once

#include <torch/custom_class.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/host/tokenweave_operator.hpp"
#include "cuda/host/world.hpp"

namespace ringfence::cuda {

class TorchWorkspace : public torch::CustomClassHolder {
 public:
  /// Collective over the job's processes; rank -1: all `size` ranks are virtual, on this device.
  /// Errors are std::runtime_error "KIND: one line", KIND a word of error_word().
  ///   job        the same for the group's processes, unlike any other on the host
  ///   transport  auto, peer or push
  ///   blocks     a rank; 0: chosen
  ///   timeout    seconds that a rank waits for another in a kernel; 0: for ever
  TorchWorkspace(int64_t rank, int64_t size, int64_t device, const std::string& job,
                 at::ScalarType dtype, bool fp32_weight, int64_t max_tokens, int64_t hidden,
                 const std::string& transport, int64_t blocks, bool strict_start,
                 bool dependent_launch, double timeout);
  ~TorchWorkspace() override;

  /// Each member's replica, [max_tokens, hidden]. A tensor keeps the workspace alive.
  std::vector<at::Tensor> buffers();
  int64_t blocks() const { return tokenweave_->options().blocks; }

  /// Enqueues on the device's current stream: the replicas' first `tokens` rows are partials before
  /// and out after it; of residual_out (which may be residual), each rank's own rows are written.
  /// Both are [members, tokens, hidden], contiguous, on 16 bytes; weight is [hidden].
  void enqueue(const at::Tensor& residual, const at::Tensor& residual_out, const at::Tensor& weight,
               int64_t tokens, double eps);

  /// Throws where a wait has run into its time limit, and from then on always: the pads are in no
  /// known state. Does not wait; launches that have not ended are not told.
  void check();

 private:
  static World make_world(int64_t rank, int64_t size, int64_t device, const std::string& job);
  void require_usable();

  World world_;
  std::unique_ptr<Tokenweave> tokenweave_;
  at::ScalarType dtype_;
  bool fp32_weight_;
  std::mutex mutex_;
  std::string failure_;
};

}  // namespace ringfence::cuda

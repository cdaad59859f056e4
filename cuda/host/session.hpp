// One configuration of `gpu run` or `gpu bench`: the world, the tensors on the devices, the product
// and the protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/host/device_buffer.hpp"
#include "cuda/host/product.hpp"
#include "cuda/host/pypto_operator.hpp"
#include "cuda/host/run_options.hpp"
#include "cuda/host/tokenweave_operator.hpp"
#include "cuda/host/verification.hpp"
#include "cuda/host/world.hpp"

namespace ringfence::cuda {

/// The world that the options ask for. For launch == "fork" the caller has forked and hands in the
/// child's place.
World make_world(const RunOptions& options, const std::optional<Place>& place);

/// TokenweaveOptions::push_tokens as the options mean it: the transport auto may push, unless the
/// signals, which pushing has none of, are to be traced.
int64_t push_tokens_of(const RunOptions& options);

/// Blocks a rank where the options ask for none.
int chosen_blocks(const RunOptions& options, const World& world, int64_t max_tokens);
DataType data_type(verify::Dtype dtype);

class Session {
 public:
  /// Collective. max_tokens: rows of the tensors.
  Session(const World& world, const RunOptions& options, int64_t max_tokens);

  verify::Problem problem(int64_t tokens) const;
  int inner_per_rank() const { return inner_per_rank_; }

  /// Copies the members' parts of the inputs to the devices and fills all outputs with poison.
  void upload(const verify::Inputs& inputs, int64_t tokens);

  /// Enqueues the product (tokenweave; pypto multiplies itself). Needs prepare(tokens).
  void prepare(int64_t tokens);
  void enqueue_product(int64_t tokens);
  void enqueue_protocol(int64_t tokens);

  /// The streams that work goes to, each once.
  std::vector<cudaStream_t> streams() const;

  /// On the root: everything of all ranks. partials only for tokenweave, between product and
  /// protocol.
  std::vector<std::vector<uint16_t>> fetch_partials(int64_t tokens) const;
  void fetch_outputs(CallResult& result) const;
  /// Words of the pads that are not zero, as text; empty if all are.
  std::string pads_in_use() const;
  void require_no_timeout() const;
  void set_call(uint32_t call);

  Tokenweave* tokenweave() { return tokenweave_ ? &*tokenweave_ : nullptr; }
  Pypto* pypto() { return pypto_ ? &*pypto_ : nullptr; }
  const World& world() const { return world_; }
  int64_t max_tokens() const { return max_tokens_; }
  const void* x(size_t member) const { return tensors_[member].x.get(); }
  const void* weight(size_t member) const { return tensors_[member].weight.get(); }
  void* residual(size_t member) const { return tensors_[member].residual.get(); }
  const void* gamma(size_t member) const { return tensors_[member].gamma.get(); }
  void* residual_out(size_t member) const;

 private:
  struct Tensors {
    DeviceBuffer x, weight, residual, gamma, beta;
  };
  cudaStream_t stream_of(size_t member) const;

  const World& world_;
  RunOptions options_;
  int64_t max_tokens_;
  int inner_per_rank_;
  std::vector<Tensors> tensors_;  // by member
  std::unique_ptr<SymmetricMemory> residual_out_;
  std::unique_ptr<SymmetricMemory> out_;  // pypto
  std::vector<Product> products_;         // by member; one for all virtual ranks
  std::unique_ptr<Tokenweave> tokenweave_;
  std::unique_ptr<Pypto> pypto_;
};

}  // namespace ringfence::cuda

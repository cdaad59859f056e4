// matmul + all-reduce + residual add + RMSNorm as one call: cuBLASLt for the product, the fused
// kernel for the rest, in waves of tokens so that one wave's product overlaps the communication of
// the wave before, which runs on few blocks. Everything is made in the constructor and in
// prepare(); the call itself launches one graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cuda/host/product.hpp"
#include "cuda/host/tokenweave_operator.hpp"
#include "cuda/host/world.hpp"

namespace ringfence::cuda {

struct FusedOptions {
  TokenweaveOptions tokenweave;
  int inner = 0;  // of one rank
  int waves = 2;  // at most one a token
  // Blocks a rank for the waves that run beside a product; the last one, which runs alone, takes
  // tokenweave.blocks. 0: about an eighth of the device, at most tokenweave.blocks.
  int wave_blocks = 0;
};

struct FusedTensors {
  const void* x = nullptr;       // [max_tokens, inner]
  const void* weight = nullptr;  // [hidden, inner]
  TokenweaveTensors rest;
};

class FusedOperator {
 public:
  /// Collective.
  FusedOperator(const World& world, const FusedOptions& options);
  ~FusedOperator();
  FusedOperator(const FusedOperator&) = delete;
  FusedOperator& operator=(const FusedOperator&) = delete;

  /// A member's tensors; they stay where they are until set again, which drops the prepared graphs.
  void set_tensors(size_t member, const FusedTensors& tensors);
  /// Where a member's out is after a call: [tokens, hidden].
  void* out(size_t member) const { return tokenweave_.buffer(member); }

  /// Plans and captures for this many tokens. Not while other work is captured in this thread.
  void prepare(int64_t tokens);
  /// Enqueues on the members' streams (virtual ranks: rank 0's). Needs prepare(tokens).
  void enqueue(int64_t tokens);
  /// The same for a world with one stream (one member, or virtual ranks), on that stream.
  void enqueue_on(int64_t tokens, cudaStream_t stream);

  Tokenweave& tokenweave() { return tokenweave_; }

 private:
  struct Group;

  const World& world_;
  FusedOptions options_;
  Tokenweave tokenweave_;
  std::vector<FusedTensors> tensors_;
  std::vector<std::unique_ptr<Group>> groups_;  // members that share a stream
};

}  // namespace ringfence::cuda

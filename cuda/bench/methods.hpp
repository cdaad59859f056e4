// What `gpu bench` times: each method enqueues one call of the whole operator or of its fused part.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/host/fused_operator.hpp"
#include "cuda/host/nccl.hpp"
#include "cuda/host/session.hpp"

namespace ringfence::cuda {

struct Method {
  std::string name;
  std::string baseline;           // the method of this run that its ratio refers to; empty for none
  bool whole = false;             // with the product
  bool captured = true;           // may be captured by the timer
  std::function<void()> enqueue;  // one call on the streams of the method
  std::vector<cudaStream_t> streams;
  std::vector<std::shared_ptr<void>> holds;  // what the closure uses
};

/// Everything that the methods of one (tokens, blocks) share.
struct Bench {
  const World& world;
  RunOptions options;
  int64_t tokens;
  int blocks;
  const Nccl* nccl;  // null where there is none
};

/// The methods by name, those that this world can run. Throws for a name that is unknown.
std::vector<std::string> default_methods(const World& world, bool nccl);
Method make_method(const std::string& name, const Bench& bench);

/// Device bytes that the fused part moves (virtual ranks), or bytes that cross a GPU's link in one
/// direction (real ranks).
double fused_bytes(const World& world, int64_t tokens, int64_t hidden);

}  // namespace ringfence::cuda

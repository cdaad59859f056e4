// The call of a serving engine: matmul + all-reduce + residual add + RMSNorm over the ranks of one
// NVLink domain.
//
//   Communicator comm;
//   Status s = Communicator::from_environment(&comm);        // torchrun, mpirun, mpiexec, srun
//   Operator op;
//   s = Operator::create(comm, {.max_tokens = 8192, .inner = 1024, .hidden = 8192}, &op);
//   s = op.set_tensors(0, {x, weight, residual, gamma});
//   s = op.prepare(tokens);                                  // plans, captures; once a size
//   s = matmul_allreduce_add_rmsnorm(op, tokens, stream);    // launches one graph, allocates
//   nothing
//   ... op.out(0) ...
//
// No exception leaves these functions: a Status has a code and one line that says what, where, and
// what would be right. Nothing stays allocated by a call that fails. An object serves one thread.
//
// Include this header and link ringfence_cuda. It needs the CUDA runtime's headers and C++20.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/host/error.hpp"
#include "cuda/kernels/limits.hpp"

namespace ringfence::cuda {

class Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string text) : failed_(true), code_(code), text_(std::move(text)) {}
  bool ok() const { return !failed_; }
  /// Meaningful where not ok().
  ErrorCode code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  bool failed_ = false;
  ErrorCode code_ = ErrorCode::driver;
  std::string text_;
};

/// The ranks, and which of them this process drives ("members").
class Communicator {
 public:
  Communicator();
  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  /// One process a rank, collective; the device is the launcher's local rank.
  static Status from_environment(Communicator* result);
  /// One process for all the devices, a rank each.
  static Status one_process(const std::vector<int>& devices, Communicator* result);
  /// All ranks on one device, for tests.
  static Status virtual_ranks(int ranks, int device, Communicator* result);

  int size() const;
  int members() const;
  int rank(int member) const;
  int device(int member) const;

 private:
  friend class Operator;
  friend class SymmetricBuffer;
  struct State;
  std::shared_ptr<State> state_;
};

/// Memory with a replica on every rank that every rank can address; zeroed.
class SymmetricBuffer {
 public:
  SymmetricBuffer();
  ~SymmetricBuffer();
  SymmetricBuffer(SymmetricBuffer&&) noexcept;
  SymmetricBuffer& operator=(SymmetricBuffer&&) noexcept;

  /// Collective.
  static Status allocate(const Communicator& communicator, size_t bytes, SymmetricBuffer* result);

  void* replica(int rank) const;
  size_t bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

struct OperatorConfig {
  DataType dtype = DataType::bf16;
  int64_t max_tokens = 0;
  int inner = 0;  // of one rank
  int hidden = 0;
  float eps = 1e-6f;
  int blocks = 0;       // a rank, for the fused kernel; 0: as many as are fastest, up to 128
  int waves = 2;        // 1: no overlap of product and communication
  int wave_blocks = 0;  // a rank, for waves beside a product; 0: about an eighth of the device
  StartOrder start = StartOrder::relaxed;
  double timeout_seconds = 0;  // 0: wait for a peer for ever
};

/// One member's tensors, row-major, on its device, on 16 bytes.
struct OperatorTensors {
  const void* x = nullptr;       // [max_tokens, inner]: this rank's columns
  const void* weight = nullptr;  // [hidden, inner]: this rank's columns
  void* residual = nullptr;      // [max_tokens, hidden]; the rank's own rows are updated in place
  const void* gamma = nullptr;   // [hidden]
  const void* beta = nullptr;    // [hidden] or null
};

class Operator {
 public:
  Operator();
  ~Operator();
  Operator(Operator&&) noexcept;
  Operator& operator=(Operator&&) noexcept;

  /// Collective. The communicator may go before the operator does.
  static Status create(const Communicator& communicator, const OperatorConfig& config,
                       Operator* result);

  /// The tensors stay the caller's and must stay where they are while the operator is used.
  Status set_tensors(int member, const OperatorTensors& tensors);

  /// Chooses the products' algorithms and captures the graph for this many tokens.
  Status prepare(int64_t tokens);

  /// Where out is after a call: [tokens, hidden] on the member's device, in all ranks the same.
  void* out(int member) const;

  /// After the stream has been synchronised: whether all barriers were passed since the last check.
  /// peer_lost: rank, block, slot and the missing peer, and a table of who waited for whom.
  Status check() const;

 private:
  friend Status matmul_allreduce_add_rmsnorm(Operator&, int64_t, cudaStream_t);
  struct State;
  std::shared_ptr<State> state_;
};

/// Enqueues one call: out = rmsnorm(sum over the ranks of x . weight^T + residual) * gamma (+
/// beta), residual = the sum. Every rank must call it, with the same tokens. Needs prepare(tokens).
/// stream: of the member's device; null for the operator's own streams, which is what several
/// devices in one process need.
Status matmul_allreduce_add_rmsnorm(Operator& op, int64_t tokens, cudaStream_t stream);

}  // namespace ringfence::cuda

// The pypto protocol over a world: rings, maps of the copy engine, checks, launches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/host/wait_report.hpp"
#include "cuda/host/world.hpp"
#include "cuda/kernels/pypto.hpp"

namespace ringfence::cuda {

struct PyptoOptions {
  int64_t max_tokens = 0;
  int inner = 0;  // of one rank
  int hidden = 0;
  float eps = 1e-6f;
  int blocks = 0;  // a rank; 0: pypto_default_blocks
  int tile_rows = 8;
  int chunk = 0;  // columns of a tile that a block multiplies at once; 0: pypto_chunk
  int slots = 0;  // of the rings; 0: as many as the kernel can use
  bool pipelined = true;
  std::optional<bool> owned;  // PyptoArgs::owned; none: pypto_owned
  uint64_t timeout_ns = 0;
  bool fp32_rows = false;                 // gamma and beta are in fp32
  size_t data_limit = size_t{200} << 20;  // bytes of the data ring
  size_t signal_limit = size_t{1} << 20;  // bytes of the signal rings
};

/// Blocks a rank where none are asked for: 8 for virtual ranks, 128 where each rank has a GPU of
/// its own.
int pypto_default_blocks(const World& world);

/// Whether rows are summed at their owners where nobody says: then a rank adds 1 / ranks of the
/// bytes, and reads what the others have summed. On one GPU that was faster with 2 ranks, too
/// (cuda/bench/results, 2026-12-02b); over a link two ranks move as many bytes either way.
constexpr bool pypto_owned(int ranks, bool on_one_gpu) { return ranks > (on_one_gpu ? 1 : 2); }

struct PyptoTensors {
  const void* x = nullptr;       // [max_tokens, inner]
  const void* weight = nullptr;  // [hidden, inner]
  const void* residual = nullptr;
  void* residual_out = nullptr;
  void* out = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
};

class Pypto {
 public:
  /// Collective. Throws Error before anything is launched.
  Pypto(const World& world, const PyptoOptions& options);
  ~Pypto();

  void set_tensors(size_t member, const PyptoTensors& tensors);

  /// Enqueues all of this process's ranks. The rings go on from the call before. x has `tokens`
  /// rows.
  void enqueue(int64_t tokens);
  void enqueue_on(const std::vector<cudaStream_t>& streams, int64_t tokens);

  const SymmetricMemory& pads() const { return *pads_; }
  int pad_words() const;
  /// Tiles that may be open at once.
  int lead() const { return pypto_lead(options_.slots, options_.pipelined, *options_.owned); }
  void require_no_timeout() const;
  /// Fault injection: this rank is not launched any more. Only where ranks are launched one by one.
  void set_absent(int rank) { absent_ = rank; }
  WaitReport& report() const { return *report_; }
  void set_trace(SignalEvent* events, uint32_t capacity, uint32_t stride);
  void set_call(uint32_t call) { args_->spin.call = call; }

 private:
  const World& world_;
  PyptoOptions options_;
  PyptoShape shape_{};
  std::unique_ptr<SymmetricMemory> data_;
  std::unique_ptr<SymmetricMemory> pads_;
  std::unique_ptr<SymmetricMemory> counters_;
  std::unique_ptr<WaitReport> report_;
  int absent_ = -1;
  std::unique_ptr<PyptoArgs> args_;
  std::vector<PyptoTensors> tensors_;  // by member
  int next_slot_ = 0;
  int64_t mapped_tokens_ = -1;  // that the maps of x were made for
};

}  // namespace ringfence::cuda

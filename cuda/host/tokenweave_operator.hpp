// The tokenweave protocol over a world: buffers, pads, checks, launches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/host/wait_report.hpp"
#include "cuda/host/world.hpp"
#include "cuda/kernels/push.hpp"
#include "cuda/kernels/tokenweave.hpp"

namespace ringfence::cuda {

struct TokenweaveOptions {
  DataType dtype = DataType::bf16;
  Transport transport = Transport::peer;
  // Transport peer: calls with at most so many tokens go through mailboxes, as transport push does.
  // kChoose: push_limit(ranks, blocks of the call) where each rank has a GPU of its own and push
  // can do what is asked (a relaxed start, hidden % 8 == 0), else 0.
  int64_t push_tokens = kChoose;
  static constexpr int64_t kChoose = -1;
  StartOrder start = StartOrder::relaxed;
  int64_t max_tokens = 0;
  int hidden = 0;
  float eps = 1e-6f;
  int blocks = 0;  // a rank; 0: default_blocks
  bool residual_sharded = false;
  bool fp32_rows = false;  // gamma and beta are in fp32; such calls never push
  // dependent: what keeps a waiting block from waiting for one that never starts is then this. The
  // constructor has checked that a launch fits on the device at once; a launch's blocks may start
  // early only when all blocks of the one before have started, and that one needs nothing from
  // this; and kernels beside it on other streams must end by themselves, without waiting for a
  // peer. Where they do wait (another operator, NCCL), leave it cooperative.
  Launch launch = Launch::cooperative;
  bool stream_a_rank = false;  // virtual ranks: a launch a rank instead of one cooperative launch
  uint64_t timeout_ns = 0;     // 0: wait for ever
};

/// Blocks a rank where none are asked for: blocks_for. Where each rank has a GPU of its own they
/// are the same on all ranks, whatever their devices.
int default_blocks(const World& world, int64_t max_tokens);

/// A rank's own tensors, on its device.
struct TokenweaveTensors {
  const void* residual = nullptr;
  void* residual_out = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
};

class Tokenweave {
 public:
  /// Collective. Throws Error before anything is launched where the shape, the grid, the pad or the
  /// device does not fit; nothing stays allocated then.
  Tokenweave(const World& world, const TokenweaveOptions& options);

  /// Member i's replica: its partial goes here, its out is here afterwards. [max_tokens, hidden].
  void* buffer(size_t member) const { return buffer_->replica(world_.members()[member].rank); }
  const SymmetricMemory& buffers() const { return *buffer_; }
  const SymmetricMemory& pads() const { return *pads_; }
  int pad_words() const { return options_.blocks * world_.size(); }
  const TokenweaveOptions& options() const { return options_; }

  void set_tensors(size_t member, const TokenweaveTensors& tensors);
  /// Of the calls from here on.
  void set_eps(float eps);

  /// Enqueues all of this process's ranks on their streams, for rows first .. first + tokens of the
  /// buffer and of the residual. Virtual ranks in one launch run on rank 0's stream. Allocates
  /// nothing; may be captured.
  void enqueue(int64_t tokens, int64_t first = 0) const;
  /// The same on other streams (one a member, or one in all for virtual ranks in one launch).
  void enqueue_on(const std::vector<cudaStream_t>& streams, int64_t tokens, int64_t first) const;
  /// Some members only, on fewer blocks a rank (0: as many as the options say); streams by member.
  /// Virtual ranks in one launch go together.
  void enqueue_members(const std::vector<size_t>& members, const std::vector<cudaStream_t>& streams,
                       int64_t tokens, int64_t first, int blocks = 0) const;

  /// Throws Error(peer_lost) with who waits for whom where a time limit ran out since the last
  /// call. After the streams are synchronised.
  void require_no_timeout() const;
  /// Fault injection: this rank is not launched any more. Only where ranks are launched one by one.
  void set_absent(int rank) { absent_ = rank; }
  WaitReport& report() const { return *report_; }

  /// Where to log signal events, `stride` of them a call; null for none.
  void set_trace(SignalEvent* events, uint32_t capacity, uint32_t stride);
  void set_call(uint32_t call) { args_.spin.call = call; }

 private:
  void require_launchable(int device, int ranks) const;
  void make_mailboxes();
  bool pushes(const TokenweaveArgs& args) const;
  void launch(const TokenweaveArgs& args, int ranks, cudaStream_t stream) const;

  const World& world_;
  TokenweaveOptions options_;
  TokenweaveShape shape_;
  std::unique_ptr<SymmetricMemory> buffer_;
  std::unique_ptr<SymmetricMemory> pads_;
  std::unique_ptr<SymmetricMemory> mailboxes_;  // transport push
  std::unique_ptr<SymmetricMemory> states_;
  std::unique_ptr<WaitReport> report_;
  int64_t push_tokens_ = 0;   // calls with up to so many tokens go through mailboxes
  bool push_chosen_ = false;  // and only up to push_limit
  int absent_ = -1;
  TokenweaveArgs args_{};
};

}  // namespace ringfence::cuda

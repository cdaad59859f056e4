#include "cuda/host/tokenweave_operator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cuda/host/check.hpp"
#include "cuda/host/device.hpp"
#include "cuda/host/error.hpp"
#include "cuda/host/grid.hpp"
#include "cuda/host/multicast.hpp"

namespace ringfence::cuda {
namespace {

constexpr int kPadWords = 16384;  // 64 KiB a rank

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

void check_eps(float eps) {
  if (!(eps >= 0.0f) || eps > 3.4e38f) refuse("eps is not a finite number of 0 or more");
}

void check_shape(const World& world, const TokenweaveOptions& o) {
  if (o.hidden < 1 || o.hidden > kMaxHidden) {
    refuse(fmt::format("hidden {} is not in 1 .. {}", o.hidden, kMaxHidden));
  }
  if (o.max_tokens < 0) refuse(fmt::format("tokens {} is negative", o.max_tokens));
  // The kernels index 16-byte vectors in 32 bits.
  if (o.max_tokens * ((o.hidden + 7) / 8) > int64_t{0xffffffff} - 8) {
    refuse(fmt::format("tokens {} x hidden {} is more than 64 GiB: use fewer tokens", o.max_tokens,
                       o.hidden));
  }
  if (o.push_tokens < TokenweaveOptions::kChoose) {
    refuse(fmt::format("push tokens {}: use 0 or more", o.push_tokens));
  }
  if (o.blocks < 1) refuse(fmt::format("blocks {}: use 1 or more", o.blocks));
  if (o.blocks * world.size() > kPadWords) {
    refuse(fmt::format(
        "{} blocks x {} ranks need {} slots of a signal pad, which has {}: use "
        "--blocks {} or fewer",
        o.blocks, world.size(), o.blocks * world.size(), kPadWords, kPadWords / world.size()));
  }
  check_eps(o.eps);
}

bool on_16_bytes(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

}  // namespace

int default_blocks(const World& world, int64_t max_tokens) {
  const bool share = world.kind() == World::Kind::virtual_ranks;
  const int room =
      share ? require_device(world.members().front().device).multiprocessors : kMaxBlocks;
  return blocks_for(max_tokens, world.size(), share, room);
}

Tokenweave::Tokenweave(const World& world, const TokenweaveOptions& options)
    : world_(world), options_(options) {
  if (options_.blocks == 0) options_.blocks = default_blocks(world, options_.max_tokens);
  check_shape(world, options_);
  const bool multimem = options_.transport == Transport::multimem;
  if (multimem && world.kind() != World::Kind::processes) {
    throw Error(ErrorCode::not_supported,
                "transport multimem needs a process a rank (--launch fork, torchrun, mpirun): use "
                "--transport peer");
  }
  const bool push = options_.transport == Transport::push;
  if ((multimem || push) && options_.hidden % 8 != 0) {
    refuse(
        fmt::format("transport {} moves 16 bytes at once, and hidden {} is not a multiple "
                    "of 8: use --transport peer",
                    push ? "push" : "multimem", options_.hidden));
  }
  if (push && world.size() == 1)
    refuse("transport push needs 2 ranks or more: use --transport peer");
  shape_.dtype = options_.dtype;
  shape_.transport = options_.transport;
  shape_.start = options_.start;
  shape_.aligned = options_.hidden % 8 == 0;
  shape_.fp32_rows = options_.fp32_rows;
  if (push && options_.fp32_rows) {
    refuse(
        "transport push takes gamma in the data's dtype, and this one is in fp32: use --transport "
        "peer");
  }
  const bool share = world.kind() == World::Kind::virtual_ranks;
  const bool can_push = options_.transport == Transport::peer && shape_.aligned &&
                        !options_.fp32_rows && world.size() > 1;
  if (push) {
    push_tokens_ = options_.max_tokens;
  } else if (can_push && options_.push_tokens != TokenweaveOptions::kChoose) {
    push_tokens_ = std::min(options_.push_tokens, options_.max_tokens);
  } else if (can_push && !share && options_.start == StartOrder::relaxed) {
    push_tokens_ = std::min(push_limit(world.size(), options_.blocks), options_.max_tokens);
    push_chosen_ = true;
  }
  if (options_.launch == Launch::dependent && options_.stream_a_rank) {
    refuse(
        "a dependent launch takes up multiprocessors early, which the other ranks' streams may "
        "need: leave --dependent-launch or --stream-a-rank out");
  }
  for (const World::Member& m : world.members()) {
    require_launchable(m.device, share ? world.size() : 1);
    if (share) break;
  }

  const size_t bytes =
      static_cast<size_t>(options_.max_tokens) * static_cast<size_t>(options_.hidden) * 2;
  if (multimem) {
    auto memory = std::make_unique<MulticastMemory>(
        options_.transport, process_environment(), *world.bootstrap(),
        world.members().front().device, std::max<size_t>(bytes, 256));
    args_.multicast = memory->multicast();
    buffer_ = std::move(memory);
  } else {
    buffer_ = world.allocate(bytes);
  }
  pads_ = world.allocate(kPadWords * sizeof(uint32_t));
  report_ = std::make_unique<WaitReport>();
  for (int r = 0; r < world.size(); ++r) {
    args_.replica[r] = buffer_->replica(r);
    args_.pad[r] = static_cast<uint32_t*>(pads_->replica(r));
  }
  args_.hidden = options_.hidden;
  args_.world = world.size();
  args_.eps = options_.eps;
  args_.hidden_reciprocal = 1.0f / static_cast<float>(options_.hidden);
  args_.blocks = options_.blocks;
  args_.residual_sharded = options_.residual_sharded ? 1 : 0;
  args_.spin.timeout_ns = options_.timeout_ns;
  args_.spin.report = report_->page();
  if (push_tokens_ > 0) make_mailboxes();
}

void Tokenweave::require_launchable(int device, int ranks) const {
  const auto require = [&](const void* kernel, int threads) {
    require_kernels(require_device(device), kernel, "the tokenweave kernel");
    require_resident(device, kernel, threads, 0, options_.blocks, ranks);
  };
  if (push_tokens_ > 0) {
    require(push_kernel(options_.dtype, world_.size(), options_.hidden),
            tokenweave_threads(options_.hidden));
  }
  if (options_.transport == Transport::push) return;
  // Which kernel a call takes depends on its rows: all of them must fit.
  for (RowsABlock rows : kAllRowsABlock) {
    TokenweaveShape shape = shape_;
    shape.rows = rows;
    require(tokenweave_kernel(shape, world_.size(), options_.hidden),
            tokenweave_block(tokenweave_layout(shape, world_.size(), options_.hidden),
                             options_.hidden));
  }
}

void Tokenweave::make_mailboxes() {
  const int64_t rows = 2 * push_half_rows(push_tokens_, world_.size());
  if (rows * (options_.hidden / 8) > int64_t{0xffffffff}) {
    refuse(
        fmt::format("tokens {} x hidden {}: the mailboxes of transport push would be more than "
                    "64 GiB; use --transport peer",
                    push_tokens_, options_.hidden));
  }
  mailboxes_ =
      world_.allocate(static_cast<size_t>(rows) * static_cast<size_t>(options_.hidden) * 2);
  states_ = world_.allocate(2 * sizeof(uint32_t));
  for (const World::Member& m : world_.members()) {
    const DeviceScope scope(m.device);
    check(cudaMemset(mailboxes_->replica(m.rank), 0xff, mailboxes_->bytes()), "mailbox");
    check(cudaDeviceSynchronize(), "mailbox");
  }
  world_.barrier();  // before any rank sends
}

bool Tokenweave::pushes(const TokenweaveArgs& args) const {
  // A call may take fewer blocks than the operator has.
  return push_tokens_ > 0 && args.tokens <= push_tokens_ &&
         (!push_chosen_ || args.tokens <= push_limit(world_.size(), args.blocks));
}

void Tokenweave::launch(const TokenweaveArgs& args, int ranks, cudaStream_t stream) const {
  if (!pushes(args)) {
    check(launch_tokenweave(args, shape_, ranks, options_.launch, stream), "launch of tokenweave");
    return;
  }
  PushArgs push{};
  push.common = args;
  push.max_tokens = push_tokens_;
  for (int r = 0; r < world_.size(); ++r) {
    push.mailbox[r] = mailboxes_->replica(r);
    push.state[r] = static_cast<uint32_t*>(states_->replica(r));
  }
  check(launch_push(push, options_.dtype, ranks, options_.launch, stream), "launch of push");
}

void Tokenweave::set_tensors(size_t member, const TokenweaveTensors& t) {
  if (shape_.aligned && !(on_16_bytes(t.residual) && on_16_bytes(t.residual_out) &&
                          on_16_bytes(t.gamma) && on_16_bytes(t.beta))) {
    refuse("residual, residual_out, gamma and beta must begin on 16 bytes");
  }
  if (t.residual == nullptr || t.residual_out == nullptr || t.gamma == nullptr) {
    refuse("residual, residual_out and gamma must not be null");
  }
  args_.local[world_.members()[member].rank] = {t.residual, t.residual_out, t.gamma, t.beta};
}

void Tokenweave::set_eps(float eps) {
  check_eps(eps);
  args_.eps = eps;
}

void Tokenweave::enqueue(int64_t tokens, int64_t first) const {
  std::vector<cudaStream_t> streams;
  for (const World::Member& m : world_.members()) streams.push_back(m.stream);
  enqueue_on(streams, tokens, first);
}

void Tokenweave::enqueue_on(const std::vector<cudaStream_t>& streams, int64_t tokens,
                            int64_t first) const {
  std::vector<size_t> all;
  for (size_t i = 0; i < world_.members().size(); ++i) all.push_back(i);
  enqueue_members(all, streams, tokens, first);
}

void Tokenweave::enqueue_members(const std::vector<size_t>& which,
                                 const std::vector<cudaStream_t>& streams, int64_t tokens,
                                 int64_t first, int blocks) const {
  if (tokens < 0 || first < 0 || first + tokens > options_.max_tokens) {
    refuse(fmt::format("rows {} .. {} are not in the buffer of {} tokens", first, first + tokens,
                       options_.max_tokens));
  }
  if (first != 0 && options_.residual_sharded) refuse("waves need a residual that is not sharded");
  if (blocks < 0 || blocks > options_.blocks) {
    refuse(fmt::format("{} blocks: the operator was made for up to {}", blocks, options_.blocks));
  }
  TokenweaveArgs args = args_;
  args.tokens = tokens;
  if (blocks > 0) args.blocks = blocks;
  const int64_t offset = first * options_.hidden * 2;
  if (args.multicast != nullptr) args.multicast = static_cast<char*>(args.multicast) + offset;
  for (int r = 0; r < world_.size(); ++r) {
    args.replica[r] = static_cast<char*>(args.replica[r]) + offset;
    if (args.local[r].residual == nullptr) continue;  // another process's
    args.local[r].residual = static_cast<const char*>(args.local[r].residual) + offset;
    args.local[r].residual_out = static_cast<char*>(args.local[r].residual_out) + offset;
  }
  const auto& members = world_.members();
  if (world_.kind() == World::Kind::virtual_ranks && !options_.stream_a_rank) {
    const DeviceScope scope(members.front().device);
    args.first_rank = 0;
    launch(args, world_.size(), streams.front());
    return;
  }
  for (size_t i : which) {
    if (members[i].rank == absent_) continue;
    const DeviceScope scope(members[i].device);
    args.first_rank = members[i].rank;
    launch(args, 1, streams[i]);
  }
}

void Tokenweave::require_no_timeout() const {
  if (!report_->timed_out()) return;
  const std::vector<SpinTimeout> entries = report_->entries();
  report_->clear();
  throw Error(ErrorCode::peer_lost,
              timeout_text(entries.front()) + "\n" + wait_table(entries, world_.size()));
}

void Tokenweave::set_trace(SignalEvent* events, uint32_t capacity, uint32_t stride) {
  args_.spin.trace = events;
  args_.spin.trace_capacity = capacity;
  args_.spin.trace_stride = stride;
  args_.spin.blocks = static_cast<uint32_t>(options_.blocks);
}

}  // namespace ringfence::cuda

#include "cuda/host/pypto_operator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cuda/host/check.hpp"
#include "cuda/host/device.hpp"
#include "cuda/host/error.hpp"
#include "cuda/host/grid.hpp"

namespace ringfence::cuda {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

void check_shape(const PyptoOptions& o) {
  if (!pypto_tile_rows_supported(o.tile_rows)) {
    refuse(fmt::format("tile rows {}: use 8, 64 or 128", o.tile_rows));
  }
  if (o.hidden < 8 || o.hidden > kMaxHidden || o.hidden % 8 != 0) {
    refuse(fmt::format("hidden {} is not a multiple of 8 in 8 .. {}", o.hidden, kMaxHidden));
  }
  if (o.inner < 8 || o.inner % 8 != 0) {
    refuse(fmt::format("inner {} of a rank is not a multiple of 8: rows must begin on 16 bytes",
                       o.inner));
  }
  if (o.max_tokens < 1) refuse("pypto needs at least one token");
  if (o.blocks < 1) refuse(fmt::format("blocks {}: use 1 or more", o.blocks));
  const int whole = pypto_whole_chunk(o.tile_rows);
  if (o.chunk != 0 && o.chunk != whole && o.chunk != whole / 2) {
    refuse(fmt::format("chunk {} with tiles of {} rows: use {} or {}", o.chunk, o.tile_rows, whole,
                       whole / 2));
  }
  if (o.pipelined && o.slots < 2) refuse("the two-tile pipeline needs 2 slots or more");
  if (*o.owned && o.slots < 2) refuse("sums at their owners need 2 slots or more");
}

/// The ring holds as many tiles as the limits allow, at most options.slots; a ring without room for
/// one is an error that names the tile size to use.
int slots_within_limits(const PyptoOptions& o) {
  const size_t tile = static_cast<size_t>(o.tile_rows) * static_cast<size_t>(o.hidden) * 2;
  const size_t by_data = o.data_limit / tile;
  const size_t by_signal = o.signal_limit / (static_cast<size_t>(o.blocks) * 2 * sizeof(uint32_t));
  const size_t slots = std::min({by_data, by_signal, static_cast<size_t>(o.slots)});
  const size_t needed = o.pipelined || *o.owned ? 2 : 1;
  if (slots < needed) {
    const size_t rows = o.data_limit / needed / (static_cast<size_t>(o.hidden) * 2);
    refuse(
        fmt::format("a data tile of {} rows takes {} bytes, {} of them exceed the limit of {}: "
                    "use tiles of {} rows or fewer",
                    o.tile_rows, tile, needed, o.data_limit, rows));
  }
  return static_cast<int>(slots);
}

CUtensorMap map_of(const void* base, int64_t rows, int inner, int box_rows) {
  CUtensorMap map{};
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(inner), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(inner) * 2};
  const cuuint32_t box[2] = {kPyptoInner, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  using Encode =
      CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                   const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                   CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  check(driver_function_as<Encode>("cuTensorMapEncodeTiled")(
            &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(base), sizes, strides, box,
            steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  return map;
}

}  // namespace

int pypto_default_blocks(const World& world) {
  return world.kind() == World::Kind::virtual_ranks ? 8 : 128;
}

Pypto::Pypto(const World& world, const PyptoOptions& options) : world_(world), options_(options) {
  if (options_.blocks == 0) options_.blocks = pypto_default_blocks(world);
  if (!options_.owned) {
    options_.owned = pypto_owned(world.size(), world.kind() == World::Kind::virtual_ranks);
  }
  if (options_.slots == 0) options_.slots = kPyptoLead + (*options_.owned ? 2 : 0);
  check_shape(options_);
  options_.slots = slots_within_limits(options_);
  shape_.tile_rows = options_.tile_rows;
  shape_.chunk = options_.chunk != 0 ? options_.chunk
                                     : pypto_chunk(options_.tile_rows, options_.hidden,
                                                   options_.blocks, options_.max_tokens);
  shape_.fp32_rows = options_.fp32_rows;
  const void* kernel = pypto_kernel(shape_);
  const int shared = pypto_shared_bytes(shape_);
  const bool share = world.kind() == World::Kind::virtual_ranks;
  for (const World::Member& m : world.members()) {
    const Device device = require_device(m.device);
    if (device.major != 9) {
      throw Error(
          ErrorCode::not_supported,
          fmt::format("the pypto kernel multiplies by wgmma, which {} (sm_{}{}) has not: use "
                      "--protocol tokenweave",
                      device.name, device.major, device.minor));
    }
    require_kernels(device, kernel, "the pypto kernel");
    require_resident(m.device, kernel, kPyptoThreads, shared, options_.blocks,
                     share ? world.size() : 1);
    if (share) break;
  }
  const size_t tile =
      static_cast<size_t>(options_.tile_rows) * static_cast<size_t>(options_.hidden) * 2;
  data_ = world.allocate(tile * static_cast<size_t>(options_.slots));
  pads_ = world.allocate(static_cast<size_t>(pad_words()) * sizeof(uint32_t));
  counters_ = world.allocate(2 * kPyptoLead * sizeof(uint32_t));
  report_ = std::make_unique<WaitReport>();
  args_ = std::make_unique<PyptoArgs>();
  tensors_.resize(world.members().size());
  for (int r = 0; r < world.size(); ++r) {
    args_->data[r] = data_->replica(r);
    args_->pad[r] = static_cast<uint32_t*>(pads_->replica(r));
    args_->local[r].counter = static_cast<uint32_t*>(counters_->replica(r));
  }
  args_->inner = options_.inner;
  args_->hidden = options_.hidden;
  args_->world = world.size();
  args_->eps = options_.eps;
  args_->blocks = options_.blocks;
  args_->slots = options_.slots;
  args_->pipelined = options_.pipelined ? 1 : 0;
  args_->owned = *options_.owned ? 1 : 0;
  args_->spin.timeout_ns = options_.timeout_ns;
  args_->spin.report = report_->page();
}

Pypto::~Pypto() = default;

int Pypto::pad_words() const {
  return static_cast<int>(pypto_pad_words(options_.slots, options_.blocks));
}

void Pypto::set_tensors(size_t member, const PyptoTensors& t) {
  for (const void* p : {t.x, t.weight, t.residual, static_cast<const void*>(t.residual_out),
                        static_cast<const void*>(t.out), t.gamma}) {
    if (p == nullptr) refuse("x, weight, residual, residual_out, out and gamma must not be null");
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) refuse("tensors must begin on 16 bytes");
  }
  const int rank = world_.members()[member].rank;
  tensors_[member] = t;
  PyptoArgs::Local& local = args_->local[rank];
  local.residual = t.residual;
  local.residual_out = t.residual_out;
  local.out = t.out;
  local.gamma = t.gamma;
  local.beta = t.beta;
  args_->weight[rank] = map_of(t.weight, options_.hidden, options_.inner, shape_.chunk);
  mapped_tokens_ = -1;
}

void Pypto::enqueue(int64_t tokens) {
  std::vector<cudaStream_t> streams;
  for (const World::Member& m : world_.members()) streams.push_back(m.stream);
  enqueue_on(streams, tokens);
}

void Pypto::enqueue_on(const std::vector<cudaStream_t>& streams, int64_t tokens) {
  if (tokens < 1 || tokens > options_.max_tokens) {
    refuse(fmt::format("tokens {} is not in 1 .. {}", tokens, options_.max_tokens));
  }
  const auto& members = world_.members();
  if (mapped_tokens_ != tokens) {
    // The map ends at the last token: what lies beyond must arrive as zeros.
    for (size_t i = 0; i < members.size(); ++i) {
      args_->x[members[i].rank] = map_of(tensors_[i].x, tokens, options_.inner, shape_.tile_rows);
    }
    mapped_tokens_ = tokens;
  }
  args_->tokens = tokens;
  args_->first_slot = next_slot_;
  const int64_t tiles = (tokens + options_.tile_rows - 1) / options_.tile_rows;
  next_slot_ = static_cast<int>((next_slot_ + tiles) % options_.slots);
  if (world_.kind() == World::Kind::virtual_ranks) {
    const DeviceScope scope(members.front().device);
    args_->first_rank = 0;
    check(launch_pypto(*args_, shape_, world_.size(), true, streams.front()), "launch of pypto");
    return;
  }
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].rank == absent_) continue;
    const DeviceScope scope(members[i].device);
    args_->first_rank = members[i].rank;
    check(launch_pypto(*args_, shape_, 1, true, streams[i]), "launch of pypto");
  }
}

void Pypto::require_no_timeout() const {
  if (!report_->timed_out()) return;
  const std::vector<SpinTimeout> entries = report_->entries();
  report_->clear();
  throw Error(ErrorCode::peer_lost,
              timeout_text(entries.front()) + "\n" + wait_table(entries, world_.size()));
}

void Pypto::set_trace(SignalEvent* events, uint32_t capacity, uint32_t stride) {
  args_->spin.trace = events;
  args_->spin.trace_capacity = capacity;
  args_->spin.trace_stride = stride;
  args_->spin.blocks = static_cast<uint32_t>(options_.blocks);
}

}  // namespace ringfence::cuda

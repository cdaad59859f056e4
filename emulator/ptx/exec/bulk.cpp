// Bulk copies (cp.async.bulk), of bytes and of tensors' boxes. They are done when they are issued.
// What a thread may not rely on before it waits for a copy's end is a race: each copy is an engine
// of its own for SharedRaces.

#include <algorithm>
#include <cstring>

#include "emulator/ptx/atomic.hpp"
#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

// What a swizzle permutes lies inside aligned lines of so many bytes.
constexpr std::uint32_t kTensorAlignment = 128;

std::uint64_t in_block(std::uint64_t address, std::uint32_t block) {
  return (address & kOffsetMask) | (std::uint64_t{block} + 1) << kSharedBits;
}

// Bitwise operations take an integer's bits.
Type reduced_as(Combine combine, Type type) {
  if (combine < Combine::and_ || combine > Combine::xor_) return type;
  if (type == Type::u32 || type == Type::s32) return Type::b32;
  return type == Type::u64 || type == Type::s64 ? Type::b64 : type;
}

template <class F>
void each_block(const BulkCopy& copy, std::uint64_t address, F f) {
  if (copy.blocks == 0) return f(address);
  each_lane(copy.blocks, [&](std::uint32_t block) { f(in_block(address, block)); });
}

}  // namespace

void Execution::State::bulk_write(Warp& warp, const BulkCopy& copy, std::uint64_t address,
                                  const std::byte* from, std::uint32_t bytes) {
  each_block(copy, address, [&](std::uint64_t at) {
    std::byte* const to = plain(warp, Space::shared, at, 1, copy.lane);
    plain(warp, Space::shared, at + bytes - 1, 1, copy.lane);
    if (check_shared_async(warp, at, bytes, copy.lane, copy.op, copy.moment, true, copy.async)) {
      std::vector<std::byte> data(from, from + bytes);
      return bulk_in_model(warp, at, data, copy.lane, copy.op, copy.moment, true, copy.async);
    }
    std::memcpy(to, from, bytes);
  });
}

void Execution::State::bulk_read(Warp& warp, const BulkCopy& copy, std::uint64_t address,
                                 std::byte* to, std::uint32_t bytes) {
  const std::byte* const from = plain(warp, Space::shared, address, 1, copy.lane);
  plain(warp, Space::shared, address + bytes - 1, 1, copy.lane);
  if (check_shared_async(warp, address, bytes, copy.lane, copy.op, copy.moment, false)) {
    return bulk_in_model(warp, address, {to, bytes}, copy.lane, copy.op, copy.moment, false, true);
  }
  std::memcpy(to, from, bytes);
}

void Execution::State::end_part(Warp& warp, std::uint32_t lane, AsyncMoment& moment, bool all) {
  if (!models_shared_) return;
  moment.time = memory_.end_part(agents(warp, 1U << lane), moment.modelled);
  (all ? moment.ended : moment.read) = moment.time;
}

void Execution::State::complete_bytes(Warp& warp, std::uint64_t at, const BulkCopy& copy,
                                      std::uint32_t bytes) {
  SharedRaces* const races = warp.block->races;
  plain(warp, Space::shared, at, 8, copy.lane);
  Mbarrier& barrier = mbarrier_at(warp, at, copy.lane);
  const std::uint64_t joined = barrier.phase + 1;
  visit_signal(warp, shared_owner(warp, at, copy.lane), at, copy.lane, copy.op, joined, true);
  check_init(warp, at, copy.lane, copy.op, false);
  barrier.transactions -= bytes;
  barrier.came.push_back(bytes);
  if (models_shared_) barrier.bytes = {copy.moment.modelled, copy.moment.ended};
  // PTX ISA 9.7.10.28.4.1: the complete-tx is a release of the copy's own accesses alone.
  if (models_shared_) {
    // Behind the step that it is of: who departs from the phase is behind that step.
    completed_.push_back({barrier.token, copy.lane, copy.moment.modelled, copy.moment.ended,
                          shared_owner(warp, at, copy.lane).index});
  } else {
    arrived(barrier.token, copy.lane, {Order::release, Scope::cluster});
    if (races != nullptr) races->end_async(in_cluster(warp), copy.moment, barrier.clock);
  }
  mbarrier_check(barrier);
  changed(warp, at, copy.lane, joined);
}

void Execution::State::bulk_end(Warp& warp, BulkCopy& copy, std::uint32_t bytes, bool signals) {
  end_part(warp, copy.lane, copy.moment, true);
  if (!signals) {
    auto& groups = warp.bulk_groups[copy.lane];
    if (groups.empty()) groups.emplace_back();
    groups.back().push_back(copy.moment);
    if (warp.block->races != nullptr)
      warp.block->races->order_lanes(in_cluster(warp));  // what comes next is not part of it
    return;
  }
  each_block(copy, copy.barrier, [&](std::uint64_t at) { complete_bytes(warp, at, copy, bytes); });
}

// Without a memory model each copy in flight is an engine of its own, until they have all had one.
AsyncMoment Execution::State::next_engine(Warp& warp, const Op& op, std::uint32_t mask,
                                          std::uint32_t same) {
  AsyncMoment moment;
  moment.op = static_cast<std::uint32_t>(&op - program_.ops.data());
  if (models_shared_) {
    moment.modelled = memory_.issue(agents(warp, mask), same);
    moment.time = memory_.engine_time(agents(warp, mask), moment.modelled);
    return moment;
  }
  Cluster& cluster = *warp.block->cluster;
  const std::uint32_t groups = groups_a_block() * cluster_size_;
  const auto engines = static_cast<std::uint32_t>(cluster.engines.size()) - groups;
  moment.engine = groups + cluster.next_copy++ % engines;
  Cluster::Engine& engine = cluster.engines[moment.engine];
  moment.number = ++engine.number;
  engine.line = op.line;
  return moment;
}

void Execution::State::bulk_copies(Warp& warp, const Op& op, std::uint32_t pc, std::uint32_t mask) {
  const CopyOp& form = program_.copies[op.detail];
  std::array<std::uint64_t, kLanes> to{};
  std::array<std::uint64_t, kLanes> from{};
  std::array<std::uint64_t, kLanes> barrier{};
  addresses(warp, op.a, form.destination_offset, form.wide_destination, mask, to);
  addresses(warp, op.b, form.source_offset, form.wide_source, mask, from);
  if (op.f) addresses(warp, op.f, form.barrier_offset, form.wide_barrier, mask, barrier);
  const bool tensor =
      form.form == CopyOp::Form::tensor_to_shared || form.form == CopyOp::Form::tensor_to_global;
  if (op.f) memory_.before_barrier(agents(warp, mask));
  each_lane(mask, [&](std::uint32_t lane) {
    BulkCopy copy;
    copy.lane = lane;
    copy.op = pc;
    copy.barrier = shared_offset(barrier[lane]);
    if (form.multicast) {
      copy.blocks = words(warp, program_.extra[op.extra + form.coordinates])[lane] & 0xFFFFU;
      if (copy.blocks == 0 || copy.blocks >> cluster_size_ != 0) {
        throw Fault(FaultKind::undefined,
                    "a multicast copy to blocks that the cluster of " +
                        std::to_string(cluster_size_) + " does not have",
                    lane);
      }
    }
    copy.moment = next_engine(warp, op, 1U << lane);
    if (tensor) return tensor_copy(warp, op, pc, copy);
    const std::uint32_t bytes = words(warp, op.c)[lane];
    const bool to_global = form.form == CopyOp::Form::bulk_to_global;
    const std::uint64_t destination = to_global ? to[lane] : shared_offset(to[lane]);
    const bool from_global = form.form == CopyOp::Form::bulk_to_shared;
    const std::uint64_t source = from_global ? from[lane] : shared_offset(from[lane]);
    if (destination % kPiece != 0 || source % kPiece != 0 || bytes % kPiece != 0) {
      throw Fault(FaultKind::misaligned, "a bulk copy needs addresses and size aligned to 16 bytes",
                  lane);
    }
    // Its ends in shared memory first: no copy is longer than that.
    const auto ends = [&](std::uint64_t address) {
      if (bytes == 0) return;
      plain(warp, Space::shared, address, 1, copy.lane);
      plain(warp, Space::shared, address + bytes - 1, 1, copy.lane);
    };
    if (!from_global) ends(source);
    if (!to_global) each_block(copy, destination, ends);
    std::vector<std::byte> data(bytes);
    BulkPart part;
    part.agents = agents(warp, 1U << lane);
    part.engine = copy.moment.modelled;
    part.data = data;
    part.instruction = pc;
    part.line = op.line;
    if (from_global) {
      part.address = source;
      memory_.bulk(part);
    } else {
      for (std::uint32_t at = 0; at < bytes; at += kPiece) {
        bulk_read(warp, copy, source + at, &data[at], kPiece);
      }
    }
    end_part(warp, lane, copy.moment, false);
    if (to_global) {
      part.operation = form.reduces ? Operation::reduce : Operation::store;
      part.type = form.remote.type;
      part.combine = form.remote.combine;
      part.address = destination;
      memory_.bulk(part);
    } else {
      for (std::uint32_t at = 0; at < bytes; at += kPiece) {
        bulk_write(warp, copy, destination + at, &data[at], kPiece);
      }
    }
    bulk_end(warp, copy, bytes, !to_global);
  });
  tell_steps(warp, mask);
}

TensorMap Execution::State::tensor_map(Warp& warp, std::uint64_t address, std::uint32_t pc,
                                       std::uint32_t lane) {
  if (address % 64 != 0) {
    throw Fault(FaultKind::misaligned, "a tensor map is aligned to 64 bytes", lane);
  }
  std::array<std::byte, TensorMap::kBytes> bytes;
  if (address - kParamWindow < kWindowBytes) {
    const std::uint64_t at = address - kParamWindow;
    const std::byte* from = plain(warp, Space::param, at, 64, lane);
    plain(warp, Space::param, at + 64, 64, lane);
    std::memcpy(bytes.data(), from, bytes.size());
  } else {
    // By the issuer's own hand: the map goes through the tensormap proxy, which is not modelled.
    BulkPart part;
    part.agents = agents(warp, 1U << lane);
    part.engine = GlobalMemory::kNoEngine;
    part.address = address;
    part.data = bytes;
    part.instruction = pc;
    part.line = program_.ops[pc].line;
    memory_.bulk(part);
  }
  const std::optional<TensorMap> map = TensorMap::decode(bytes);
  if (!map) {
    throw Fault(FaultKind::undefined,
                "there is no tensor map at this address; a case file gives one by "
                "{tensor_map = {...}}",
                lane);
  }
  return *map;
}

/// The box that a tensor copy names.
struct Execution::State::TensorBox {
  std::uint64_t shared = 0;
  TensorMap map;
  std::array<std::int64_t, TensorMap::kMostDimensions> corner{};
};

Execution::State::TensorBox Execution::State::tensor_box(Warp& warp, const Op& op, std::uint32_t pc,
                                                         std::uint32_t lane) {
  const CopyOp& form = program_.copies[op.detail];
  const bool loads = form.form == CopyOp::Form::tensor_to_shared;
  const auto address = [&](Slot slot, std::int64_t offset, bool wide) {
    const std::uint64_t base = wide ? longs(warp, slot)[lane] : words(warp, slot)[lane];
    return base + static_cast<std::uint64_t>(offset);
  };
  const std::uint64_t a = address(op.a, form.destination_offset, form.wide_destination);
  const std::uint64_t b = address(op.b, form.source_offset, form.wide_source);
  TensorBox box{shared_offset(loads ? a : b), tensor_map(warp, loads ? b : a, pc, lane), {}};
  const TensorMap& map = box.map;
  if (map.dimensions != form.coordinates) {
    throw Fault(FaultKind::undefined,
                "a copy of " + std::to_string(form.coordinates) +
                    " coordinates by a tensor map of " + std::to_string(map.dimensions) +
                    " dimensions",
                lane);
  }
  if (box.shared % kTensorAlignment != 0) {
    throw Fault(FaultKind::misaligned,
                "a tensor copy needs a shared address that is a multiple of 128", lane);
  }
  auto& corner = box.corner;
  for (unsigned i = 0; i < form.coordinates; ++i) {
    corner[i] = static_cast<std::int32_t>(words(warp, program_.extra[op.extra + i])[lane]);
  }
  // Three things as an H200 has them, of which the manual says nothing: rows of a box start on 16
  // bytes, a store does not start before the tensor, and it ends with whole pieces of 16 bytes.
  if (corner[0] * map.element_bytes % kPiece != 0) {
    throw Fault(FaultKind::misaligned,
                "the innermost coordinate " + std::to_string(corner[0]) +
                    " of a tensor copy is no multiple of 16 bytes",
                lane);
  }
  if (!loads && std::any_of(corner.begin(), corner.end(), [](std::int64_t c) { return c < 0; })) {
    throw Fault(FaultKind::undefined, "a tensor store at a negative coordinate", lane);
  }
  return box;
}

/// Makes what a store writes an operation on what is there.
void Execution::State::reduce_tensor(const CopyOp& form, const TensorMap& map, std::uint32_t lane,
                                     BulkPart& box) {
  const Type type = reduced_as(form.remote.combine, map.type);
  if (!may_combine(form.remote.combine, type)) {
    throw Fault(FaultKind::undefined,
                "a tensor reduction of another kind than elements of ." +
                    std::string(name_of(map.type)) + " have",
                lane);
  }
  box.operation = Operation::reduce;
  box.type = type;
  box.combine = form.remote.combine;
  box.scope = form.remote.scope;
}

void Execution::State::tensor_copy(Warp& warp, const Op& op, std::uint32_t pc, BulkCopy& copy) {
  const CopyOp& form = program_.copies[op.detail];
  const std::uint32_t lane = copy.lane;
  const bool loads = form.form == CopyOp::Form::tensor_to_shared;
  const auto [shared, map, corner] = tensor_box(warp, op, pc, lane);
  // The part of a row that lies inside the tensor.
  const auto width = static_cast<std::int64_t>(map.size[0]);
  const std::int64_t first = std::clamp<std::int64_t>(corner[0], 0, width);
  const std::int64_t last = std::clamp<std::int64_t>(corner[0] + map.box[0], first, width);
  const auto skipped = static_cast<std::size_t>(first - corner[0]) * map.element_bytes;
  auto inside = static_cast<std::size_t>(last - first) * map.element_bytes;
  if (!loads) inside = (inside + kPiece - 1) / kPiece * kPiece;
  const auto row_bytes = static_cast<std::uint32_t>(map.row_bytes());
  std::vector<std::byte> row(row_bytes);
  std::array<std::uint32_t, TensorMap::kMostDimensions> at{};
  std::uint64_t place = shared;
  // A store has read all of its source before it counts as written.
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> stored;
  BulkPart box;
  box.agents = agents(warp, 1U << lane);
  box.engine = copy.moment.modelled;
  box.operation = loads ? Operation::load : Operation::store;
  box.instruction = pc;
  box.line = op.line;
  for (bool more = true; more; place += row_bytes) {
    bool outside = inside == 0;
    std::uint64_t global = map.address + static_cast<std::uint64_t>(first) * map.element_bytes;
    for (unsigned i = 1; i < map.dimensions; ++i) {
      const std::int64_t c = corner[i] + at[i];
      outside = outside || c < 0 || c >= static_cast<std::int64_t>(map.size[i]);
      global += static_cast<std::uint64_t>(c) * map.stride[i];
    }
    const std::span<std::byte> part(row.data() + (outside ? 0 : skipped), outside ? 0 : inside);
    box.address = global;
    box.data = part;
    if (loads) {
      // What lies outside the tensor arrives as zeros.
      std::fill(row.begin(), row.end(), std::byte{0});
      if (!outside) memory_.bulk(box);
    }
    for (std::uint32_t k = 0; k < row_bytes; k += kPiece) {
      const std::uint64_t piece = swizzled(place + k, map.swizzle);
      if (loads) {
        bulk_write(warp, copy, piece, &row[k], kPiece);
      } else {
        bulk_read(warp, copy, piece, &row[k], kPiece);
      }
    }
    if (!loads && !outside) stored.emplace_back(global, std::vector(part.begin(), part.end()));
    more = false;
    for (unsigned i = 1; i < map.dimensions && !more; ++i) {
      more = ++at[i] < map.box[i];
      if (!more) at[i] = 0;
    }
  }
  end_part(warp, lane, copy.moment, false);
  if (form.reduces) {
    reduce_tensor(form, map, lane, box);
    // What lies behind a row's end in its last 16 bytes is no element of the tensor.
    const auto within = static_cast<std::size_t>(last - first) * map.element_bytes;
    for (auto& [global, data] : stored) data.resize(std::min(data.size(), within));
  }
  for (auto& [global, data] : stored) {
    box.address = global;
    box.data = data;
    memory_.bulk(box);
  }
  bulk_end(warp, copy, static_cast<std::uint32_t>(map.box_bytes()), loads);
}

}  // namespace ringfence::ptx

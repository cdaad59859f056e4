// Bulk copies (cp.async.bulk), of bytes and of tensors' boxes. They are done when they are issued.
// What a thread may not rely on before it waits for a copy's end is a race: each copy is an engine
// of its own for SharedRaces.

#include <algorithm>
#include <cstring>

#include "emulator/ptx/exec/state.hpp"
#include "emulator/ptx/lanes.hpp"

namespace ringfence::ptx {
namespace {

// What a swizzle permutes lies inside aligned lines of so many bytes.
constexpr std::uint32_t kTensorAlignment = 128;

std::uint64_t shared_offset(std::uint64_t address) {
  if (address - kSharedWindow < kWindowBytes) address -= kSharedWindow;
  return address & 0xFFFFFFFFU;
}
std::uint64_t in_block(std::uint64_t address, std::uint32_t block) {
  return (address & ((1ULL << kSharedBits) - 1)) | (std::uint64_t{block} + 1) << kSharedBits;
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
    plain(warp, Space::shared, at, 1, copy.lane);
    plain(warp, Space::shared, at + bytes - 1, 1, copy.lane);
    check_shared_async(warp, at, bytes, copy.lane, copy.moment, true);
    put_shared(warp, at, bytes, copy.lane, from);
  });
}

void Execution::State::bulk_read(Warp& warp, const BulkCopy& copy, std::uint64_t address,
                                 std::byte* to, std::uint32_t bytes) {
  plain(warp, Space::shared, address, 1, copy.lane);
  plain(warp, Space::shared, address + bytes - 1, 1, copy.lane);
  check_shared_async(warp, address, bytes, copy.lane, copy.moment, false);
  take_shared(warp, address, bytes, copy.lane, to);
}

void Execution::State::bulk_end(Warp& warp, const BulkCopy& copy, std::uint32_t bytes,
                                bool signals) {
  SharedRaces* const races = warp.block->races;
  if (!signals) {
    auto& groups = warp.bulk_groups[copy.lane];
    if (groups.empty()) groups.emplace_back();
    groups.back().push_back(copy.moment);
    if (races != nullptr)
      races->order_lanes(in_cluster(warp));  // what comes next is not part of it
    return;
  }
  each_block(copy, copy.barrier, [&](std::uint64_t at) {
    plain(warp, Space::shared, at, 8, copy.lane);
    Mbarrier& barrier = mbarrier_at(warp, at, copy.lane);
    check_init(warp, at, copy.lane, copy.op, false);
    const std::uint64_t joined = barrier.phase + 1;
    barrier.transactions -= bytes;
    barrier.bytes = true;
    arrived(barrier.token, copy.lane);
    if (races != nullptr) races->end_async(in_cluster(warp), copy.moment, barrier.clock);
    mbarrier_check(barrier);
    changed(warp, at, copy.lane, joined);
  });
}

// Each copy in flight is an engine of its own, until they have all had one.
AsyncMoment Execution::State::next_engine(Warp& warp, const Op& op) {
  Cluster& cluster = *warp.block->cluster;
  const std::uint32_t groups = groups_a_block() * cluster_size_;
  const auto engines = static_cast<std::uint32_t>(cluster.engines.size()) - groups;
  AsyncMoment moment;
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
    copy.moment = next_engine(warp, op);
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
    if (from_global) {
      memory_.bulk(agents(warp, 1U << lane), Operation::load, source, data, pc, op.line);
    } else {
      for (std::uint32_t at = 0; at < bytes; at += kPiece) {
        bulk_read(warp, copy, source + at, &data[at], kPiece);
      }
    }
    if (to_global) {
      memory_.bulk(agents(warp, 1U << lane), Operation::store, destination, data, pc, op.line);
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
    memory_.bulk(agents(warp, 1U << lane), Operation::load, address, bytes, pc,
                 program_.ops[pc].line);
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

void Execution::State::tensor_copy(Warp& warp, const Op& op, std::uint32_t pc,
                                   const BulkCopy& copy) {
  const CopyOp& form = program_.copies[op.detail];
  const std::uint32_t lane = copy.lane;
  const bool loads = form.form == CopyOp::Form::tensor_to_shared;
  const auto address = [&](Slot slot, std::int64_t offset, bool wide) {
    const std::uint64_t base = wide ? longs(warp, slot)[lane] : words(warp, slot)[lane];
    return base + static_cast<std::uint64_t>(offset);
  };
  const std::uint64_t a = address(op.a, form.destination_offset, form.wide_destination);
  const std::uint64_t b = address(op.b, form.source_offset, form.wide_source);
  const std::uint64_t shared = shared_offset(loads ? a : b);
  const TensorMap map = tensor_map(warp, loads ? b : a, pc, lane);
  if (map.dimensions != form.coordinates) {
    throw Fault(FaultKind::undefined,
                "a copy of " + std::to_string(form.coordinates) +
                    " coordinates by a tensor map of " + std::to_string(map.dimensions) +
                    " dimensions",
                lane);
  }
  if (shared % kTensorAlignment != 0) {
    throw Fault(FaultKind::misaligned,
                "a tensor copy needs a shared address that is a multiple of 128", lane);
  }
  std::array<std::int64_t, TensorMap::kMostDimensions> corner{};
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
  for (bool more = true; more; place += row_bytes) {
    bool outside = inside == 0;
    std::uint64_t global = map.address + static_cast<std::uint64_t>(first) * map.element_bytes;
    for (unsigned i = 1; i < map.dimensions; ++i) {
      const std::int64_t c = corner[i] + at[i];
      outside = outside || c < 0 || c >= static_cast<std::int64_t>(map.size[i]);
      global += static_cast<std::uint64_t>(c) * map.stride[i];
    }
    const std::span<std::byte> part(row.data() + (outside ? 0 : skipped), outside ? 0 : inside);
    const Agents agent = agents(warp, 1U << lane);
    if (loads) {
      // What lies outside the tensor arrives as zeros.
      std::fill(row.begin(), row.end(), std::byte{0});
      if (!outside) memory_.bulk(agent, Operation::load, global, part, pc, op.line);
    }
    for (std::uint32_t k = 0; k < row_bytes; k += kPiece) {
      const std::uint64_t piece = swizzled(place + k, map.swizzle);
      if (loads) {
        bulk_write(warp, copy, piece, &row[k], kPiece);
      } else {
        bulk_read(warp, copy, piece, &row[k], kPiece);
      }
    }
    if (!loads && !outside) memory_.bulk(agent, Operation::store, global, part, pc, op.line);
    more = false;
    for (unsigned i = 1; i < map.dimensions && !more; ++i) {
      more = ++at[i] < map.box[i];
      if (!more) at[i] = 0;
    }
  }
  bulk_end(warp, copy, static_cast<std::uint32_t>(map.box_bytes()), loads);
}

}  // namespace ringfence::ptx

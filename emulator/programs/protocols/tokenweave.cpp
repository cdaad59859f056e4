#include "emulator/programs/protocols/tokenweave.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "emulator/machine/names.hpp"
#include "emulator/programs/protocol.hpp"
#include "emulator/programs/sum_order.hpp"

namespace ringfence::programs {

namespace {

using machine::Access;
using machine::Order;
using machine::Proxy;
using machine::RegionKind;
using machine::Scope;
using schedule::Agent;
using schedule::Role;

// Elements of 16 bytes, by the type of their patterns.
template <typename Bits>
constexpr std::int64_t kVector = verify::kVectorBytes / static_cast<std::int64_t>(sizeof(Bits));
constexpr std::uint64_t kVectorBytes = verify::kVectorBytes;
constexpr std::uint32_t kWarp = 32;
constexpr std::uint64_t kSlotBytes = 4;
constexpr std::uint32_t kMaxBlocks = 65535;  // of an agent's label
constexpr std::uint32_t kMaxGrid = 32768;    // blocks of a rank

enum Site : std::uint16_t {
  kEndCheck,
  kZeroPads,
  kProductPartial,
  kProductResidual,
  kStartPut,
  kStartWait,
  kStartSync,
  kLdReduce,
  kLoadResidual,
  kStoreResidual,
  kSumSync,
  kScaleSync,
  kStore,
  kEndSync,
  kEndPut,
  kEndWait,
  kConsume,
};

// What each lane does to its vector at all of the places, 16 bytes further for each: at once where
// nothing tells the lanes apart, else one by one.
void read_warp(machine::Machine& m, std::span<const machine::ThreadId> lanes,
               std::span<const machine::Address> places, const Access& access,
               std::span<std::byte> out) {
  if (m.read_together(lanes, places, access, out)) return;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (std::size_t k = 0; k < places.size(); ++k) {
      machine::Address from = places[k];
      from.offset += lane * kVectorBytes;
      m.read(lanes[lane], from, access,
             out.subspan((k * lanes.size() + lane) * kVectorBytes, kVectorBytes));
    }
  }
}

void write_warp(machine::Machine& m, std::span<const machine::ThreadId> lanes,
                std::span<const machine::Address> places, const Access& access,
                std::span<const std::byte> in) {
  if (m.write_together(lanes, places, access, in)) return;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (machine::Address to : places) {
      to.offset += lane * kVectorBytes;
      m.write(lanes[lane], to, access, in.subspan(lane * kVectorBytes, kVectorBytes));
    }
  }
}

}  // namespace

struct TokenWeave::Lane {
  Agent& agent;
  Block& block;
  const Payload::Call& call;
  Place place;
  std::uint32_t block_index;
  std::uint32_t thread;
  verify::Norm norm = norm_of(call);
};

namespace {

bool set_threads(int& to, std::string_view value) {
  int n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc{} || end != value.data() + value.size()) return false;
  if (n < 32 || n > 1024 || n % 32 != 0) return false;
  to = n;
  return true;
}

bool set_grid(std::vector<std::uint32_t>& to, std::string_view value) {
  std::vector<std::uint32_t> grid;
  for (;;) {
    const std::string_view one = value.substr(0, value.find(','));
    std::uint32_t n = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), n);
    if (error != std::errc{} || end != one.data() + one.size() || n < 1 || n > kMaxGrid) {
      return false;
    }
    grid.push_back(n);
    if (one.size() == value.size()) break;
    value.remove_prefix(one.size() + 1);
  }
  to = std::move(grid);
  return true;
}

}  // namespace

void TokenWeaveSwitches::list(SwitchList& list) {
  list.none("start", start);
  list.none("end", end);
  list.order("start.put", Orders::rmw, start_put);
  list.order("start.wait", Orders::rmw, start_wait);
  list.order("end.put", Orders::rmw, end_put);
  list.order("end.wait", Orders::rmw, end_wait);
  list.order("ld_reduce.order", Orders::read, ld_reduce);
  list.order("st.order", Orders::write, st);
  list.none("end.block_barrier", end_block_barrier);
  list.add({"grid", "N,N", "block counts of 1 to 32768, for the ranks in turn, such as 2,3",
            [this](std::string_view v) { return set_grid(grid, v); }, true});
  list.add({"threads", "N", "a multiple of 32 from 32 to 1024, the threads of a block",
            [this](std::string_view v) { return set_threads(threads, v); }});
  list.add({"width", "8|4|2", "8 (not of fp32), 4 or 2, the elements that a thread moves at once",
            [this](std::string_view v) {
              if (v != "8" && v != "4" && v != "2") return false;
              width = v[0] - '0';
              return true;
            }});
  list_scope(list);
  list_operators(list);
}

void TokenWeaveSwitches::check(const Config& config, const verify::Problem& problem) const {
  const int most = verify::vector_elements(problem.dtype);
  if (width > most) {
    throw std::invalid_argument(
        fmt::format("--set width={}: a thread moves 16 bytes at once, at "
                    "most {} elements of {}",
                    width, most, verify::dtype_name(problem.dtype)));
  }
  if (threads != 0 && static_cast<std::uint32_t>(threads) < config.ranks) {
    throw std::invalid_argument(
        fmt::format("--set threads={}: {} ranks need a thread each; expected at least {}", threads,
                    config.ranks, (config.ranks + 31) / 32 * 32));
  }
  const std::uint32_t blocks =
      grid.empty() ? config.blocks : *std::max_element(grid.begin(), grid.end());
  if (blocks * groups > kMaxBlocks) {
    throw std::invalid_argument(fmt::format(
        "{} blocks in {} groups: expected at most {} blocks in all", blocks, groups, kMaxBlocks));
  }
}

TokenWeave::TokenWeave(const Config& config, TokenWeaveSwitches switches)
    : OperatorProgram(config, switches), switches_(std::move(switches)), grid_(switches_.grid) {
  const verify::Problem& p = payload().problem();
  threads_ = static_cast<std::uint32_t>(
      p.threads != 0 ? p.threads : verify::tokenweave_block_threads(p.hidden, p.width));
  const auto vectors = static_cast<std::uint32_t>(p.hidden / p.width);
  agents_ = std::max<std::uint32_t>(ranks(), std::min(vectors, threads_));
  if (grid_.empty()) grid_ = {config.blocks};

  const std::uint32_t most = *std::max_element(grid_.begin(), grid_.end());
  for (std::uint32_t g = 0; g < payload().groups(); ++g) {
    for (std::uint16_t r = 0; r < ranks(); ++r) {
      const auto tokens = static_cast<std::uint64_t>(p.tokens);
      buffer_.push_back(add_region("buffer", r, g, RegionKind::data, tokens * row_bytes()));
      residual_.push_back(
          add_region("residual", r, g, RegionKind::data, tokens / ranks() * row_bytes()));
      pad_.push_back(add_region("pad", r, g, RegionKind::signal, most * ranks() * kSlotBytes));
    }
  }
  blocks_.resize(ranks());
  for (std::uint16_t r = 0; r < ranks(); ++r) {
    for (std::uint32_t b = 0; b < payload().groups() * grid(r); ++b) {
      blocks_[r].push_back(std::make_unique<Block>(agents_));
    }
  }
}

machine::Address TokenWeave::residual_out_row(const Place& p, std::int64_t row) const {
  const std::int64_t first = call_of(p).problem.rows_of(p.rank).begin;
  return at(residual_[p.group * ranks() + p.rank],
            static_cast<std::uint64_t>(row - first) * row_bytes());
}

// The launch before: this rank's partial product into its replica, its slice of the residual.
void TokenWeave::produce(Agent& agent, const Place& p) {
  const Payload::Call& c = call_of(p);
  const verify::Tensor& partial = c.partials[p.rank];
  Access access{Order::weak, Scope::sys, element_bytes(), Proxy::generic, false, kProductPartial};
  for (std::int64_t row = 0; row < c.problem.tokens; ++row) {
    agent.write(out_row(p, row), access, partial.row_bytes(row));
  }
  access.site = kProductResidual;
  const verify::RowRange rows = c.problem.rows_of(p.rank);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    agent.write(residual_out_row(p, row), access, c.residual.row_bytes(row));
  }
}

void TokenWeave::run_groups(Agent& host, std::uint16_t rank, std::uint32_t call,
                            std::uint32_t first, std::uint32_t last) {
  std::vector<Agent::ChildSpec> children;
  children.reserve(std::size_t{last - first} * grid(rank) * agents_);
  for (std::uint32_t b = first * grid(rank); b < last * grid(rank); ++b) {
    for (std::uint32_t t = 0; t < agents_; ++t) {
      children.push_back({Role::thread, b, t, 0, [this](Agent& a) { kernel(a); }});
    }
  }
  host.launch(stream(rank), static_cast<std::uint16_t>(call), std::move(children));
}

void TokenWeave::kernel(Agent& agent) {
  const schedule::AgentLabel me = agent.label();
  const std::uint32_t blocks = grid(me.rank);
  const Place place{me.block / blocks, me.rank, me.call};
  Lane lane{agent, *blocks_[me.rank][me.block], call_of(place), place, me.block % blocks, me.index};
  lane.block.threads[lane.thread] = agent.thread();

  if (switches_.start) barrier(lane, true);
  agent.sync(lane.block.barrier, kStartSync);
  const verify::RowRange rows = lane.call.problem.rows_of(me.rank);
  verify::with_patterns(lane.call.problem.dtype, [&](auto bits) {
    for (std::int64_t r = rows.begin + lane.block_index; r < rows.end; r += blocks) {
      row<decltype(bits)>(lane, r);
    }
  });
  if (switches_.end_block_barrier) agent.sync(lane.block.barrier, kEndSync);
  if (switches_.end) barrier(lane, false);
}

void TokenWeave::barrier(Lane& lane, bool start) {
  const std::uint32_t peer = lane.thread;
  if (peer >= ranks()) return;
  const std::uint32_t base = lane.place.group * ranks();
  const auto slot = [&](std::uint32_t from) {
    return (std::uint64_t{lane.block_index} * ranks() + from) * kSlotBytes;
  };
  Access put{start ? switches_.start_put : switches_.end_put,
             switches_.scope,
             kSlotBytes,
             Proxy::generic,
             false,
             start ? kStartPut : kEndPut};
  Access wait = put;
  wait.order = start ? switches_.start_wait : switches_.end_wait;
  wait.site = start ? kStartWait : kEndWait;
  const std::uint32_t sender = switches_.wrong_slot ? peer : lane.place.rank;
  lane.agent.await_cas(at(pad_[base + peer], slot(sender)), put, 0, 1);
  lane.agent.await_cas(at(pad_[base + lane.place.rank], slot(peer)), wait, 1, 0);
}

template <typename Bits>
void TokenWeave::row(Lane& lane, std::int64_t row) {
  const verify::Problem& p = lane.call.problem;
  const std::int64_t width = p.width;
  const std::int64_t vectors = p.hidden / width;
  if (lane.agent.free_running() && width == kVector<Bits> && agents_ % kWarp == 0 &&
      vectors % kWarp == 0) {
    return row_by_warps<Bits>(lane, row);
  }
  const auto count = static_cast<std::size_t>(width);
  const std::uint64_t bytes = count * sizeof(Bits);
  const Access residual{Order::weak, Scope::sys, 4, Proxy::generic, false, kLoadResidual};
  Access store_residual = residual;
  store_residual.site = kStoreResidual;
  const Access store{switches_.st, Scope::sys, 4, Proxy::multicast, false, kStore};
  Bits v[kVector<Bits>], r[kVector<Bits>];
  if (lane.block.z.empty()) {
    lane.block.z.resize(row_bytes());
    lane.block.lanes.resize(threads_);
  }

  for (std::int64_t i = lane.thread; i < vectors; i += threads_) {
    ld_reduce(lane, row, i, v);
    machine::Address here = residual_out_row(lane.place, row);
    here.offset += static_cast<std::uint64_t>(i) * bytes;
    lane.agent.read(here, residual, std::as_writable_bytes(std::span(r, count)));
    Bits* const z = row_at_hand<Bits>(lane.block) + i * width;
    verify::add_residual(p.dtype, v, r, count, z);
    lane.agent.write(here, store_residual, std::as_bytes(std::span(z, count)));
  }
  if (lane.thread < vectors) {
    lane.block.lanes[lane.thread] = verify::thread_sum_squares(
        p.dtype, row_at_hand<const Bits>(lane.block), p.hidden, static_cast<int>(lane.thread),
        static_cast<int>(threads_), p.width);
  }
  lane.agent.sync(lane.block.barrier, kSumSync);
  if (lane.thread == 0) {
    lane.block.scale = verify::tokenweave_scale(block_sum(lane.block), p.hidden, p.eps, {});
  }
  lane.agent.sync(lane.block.barrier, kScaleSync);

  for (std::int64_t i = lane.thread; i < vectors; i += threads_) {
    verify::tokenweave_scale_elements(lane.norm, lane.block.scale,
                                      row_at_hand<const Bits>(lane.block) + i * width,
                                      static_cast<std::size_t>(i * width), count, v);
    const auto to = [&](std::uint16_t replica) {
      machine::Address at = out_row({lane.place.group, replica, lane.place.call}, row);
      at.offset += static_cast<std::uint64_t>(i) * bytes;
      return at;
    };
    const schedule::Agent::OneInstruction multimem_st(lane.agent, store, machine::AccessKind::write,
                                                      to(0), bytes);
    for (std::uint16_t replica = 0; replica < ranks(); ++replica) {
      lane.agent.write(to(replica), store, std::as_bytes(std::span(v, count)));
    }
  }
}

// In a free run nobody picks who steps: the first thread of a warp takes the steps of all its
// lanes, each as that lane's thread, between the same barriers.
template <typename Bits>
void TokenWeave::row_by_warps(Lane& lane, std::int64_t row) {
  const verify::Problem& p = lane.call.problem;
  const std::int64_t vectors = p.hidden / kVector<Bits>;
  const bool leads = lane.thread % kWarp == 0;
  Block& block = lane.block;
  if (block.z.empty()) {
    block.z.resize(row_bytes());
    block.lanes.resize(threads_);
  }
  for (std::int64_t i = lane.thread; leads && i < vectors; i += threads_) {
    load_warp<Bits>(lane, row, i);
  }
  for (std::uint32_t t = lane.thread; leads && t < lane.thread + kWarp; ++t) {
    block.lanes[t] =
        verify::thread_sum_squares(p.dtype, row_at_hand<const Bits>(block), p.hidden,
                                   static_cast<int>(t), static_cast<int>(threads_), p.width);
  }
  lane.agent.sync(block.barrier, kSumSync);
  if (lane.thread == 0) {
    block.scale = verify::tokenweave_scale(block_sum(block), p.hidden, p.eps, {});
  }
  lane.agent.sync(block.barrier, kScaleSync);
  for (std::int64_t i = lane.thread; leads && i < vectors; i += threads_) {
    store_warp<Bits>(lane, row, i);
  }
}

// Of the lanes' vectors, which lie side by side from `first` on: their sums and residuals into z.
template <typename Bits>
void TokenWeave::load_warp(Lane& lane, std::int64_t row, std::int64_t first) {
  const verify::Problem& p = lane.call.problem;
  const auto lanes = std::span(lane.block.threads).subspan(lane.thread, kWarp);
  const std::uint64_t offset = static_cast<std::uint64_t>(first) * kVectorBytes;
  constexpr std::size_t kElements = kWarp * kVector<Bits>;
  const auto bytes_of = [](auto& elements) { return std::as_writable_bytes(std::span(elements)); };
  std::vector<machine::Address> replicas;
  for (std::uint16_t r = 0; r < ranks(); ++r) {
    replicas.push_back(out_row({lane.place.group, r, lane.place.call}, row));
    replicas.back().offset += offset;
  }
  machine::Address here = residual_out_row(lane.place, row);
  here.offset += offset;
  const Access load{switches_.ld_reduce, Scope::sys, sizeof(Bits),
                    Proxy::multicast,    true,       kLdReduce};
  Access residual{Order::weak, Scope::sys, 4, Proxy::generic, false, kLoadResidual};
  std::vector<Bits> parts(ranks() * kElements), added(kElements);
  lane.agent.act(kLdReduce, [&](machine::Machine& m) {
    read_warp(m, lanes, replicas, load, bytes_of(parts));
  });
  lane.agent.act(kLoadResidual, [&](machine::Machine& m) {
    read_warp(m, lanes, std::span(&here, 1), residual, bytes_of(added));
  });
  constexpr std::int64_t kWide = kVector<Bits>;
  Bits* const z = row_at_hand<Bits>(lane.block) + first * kWide;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(kWarp); ++i) {
    const Bits* pointers[verify::kMaxRanks];
    for (std::uint16_t r = 0; r < ranks(); ++r) {
      pointers[r] = parts.data() + r * kElements + i * kWide;
    }
    Bits v[kWide];
    sum(lane, row, first + i, pointers, v);
    verify::add_residual(p.dtype, v, added.data() + i * kWide, kWide, z + i * kWide);
  }
  residual.site = kStoreResidual;
  lane.agent.act(kStoreResidual, [&](machine::Machine& m) {
    write_warp(m, lanes, std::span(&here, 1), residual,
               std::as_bytes(std::span(std::as_const(z), kElements)));
  });
}

template <typename Bits>
void TokenWeave::store_warp(Lane& lane, std::int64_t row, std::int64_t first) {
  const auto lanes = std::span(lane.block.threads).subspan(lane.thread, kWarp);
  std::vector<machine::Address> replicas;
  for (std::uint16_t r = 0; r < ranks(); ++r) {
    replicas.push_back(out_row({lane.place.group, r, lane.place.call}, row));
    replicas.back().offset += static_cast<std::uint64_t>(first) * kVectorBytes;
  }
  constexpr std::int64_t kWide = kVector<Bits>;
  Bits v[kWarp * kWide];
  verify::tokenweave_scale_elements(lane.norm, lane.block.scale,
                                    row_at_hand<const Bits>(lane.block) + first * kWide,
                                    static_cast<std::size_t>(first * kWide), kWarp * kWide, v);
  const Access store{switches_.st, Scope::sys, 4, Proxy::multicast, false, kStore};
  lane.agent.act(kStore, [&](machine::Machine& m) {
    write_warp(m, lanes, replicas, store, std::as_bytes(std::span(v)));
  });
}

verify::Norm TokenWeave::norm_of(const Payload::Call& call) {
  const verify::Problem& p = call.problem;
  verify::Norm norm;
  norm.dtype = p.dtype;
  norm.hidden = p.hidden;
  norm.eps = p.eps;
  norm.set_gamma(call.gamma);
  return norm;
}

// One read for each replica, in no order that anybody may rely on; the sum is a policy.
template <typename Bits>
void TokenWeave::ld_reduce(Lane& lane, std::int64_t row, std::int64_t vector, Bits* v) {
  const Access load{switches_.ld_reduce, Scope::sys, sizeof(Bits),
                    Proxy::multicast,    true,       kLdReduce};
  const auto count = static_cast<std::size_t>(lane.call.problem.width);
  Bits parts[verify::kMaxRanks][kVector<Bits>];
  const Bits* pointers[verify::kMaxRanks];
  {
    const auto from = [&](std::uint16_t replica) {
      machine::Address at = out_row({lane.place.group, replica, lane.place.call}, row);
      at.offset += static_cast<std::uint64_t>(vector) * count * sizeof(Bits);
      return at;
    };
    const schedule::Agent::OneInstruction multimem_ld_reduce(
        lane.agent, load, machine::AccessKind::read, from(0), count * sizeof(Bits));
    for (std::uint16_t replica = 0; replica < ranks(); ++replica) {
      lane.agent.read(from(replica), load,
                      std::as_writable_bytes(std::span(parts[replica], count)));
      pointers[replica] = parts[replica];
    }
  }
  sum(lane, row, vector, pointers, v);
}

template <typename Bits>
void TokenWeave::sum(Lane& lane, std::int64_t row, std::int64_t vector, const Bits* const* parts,
                     Bits* v) {
  int order[verify::kMaxRanks];
  verify::reduce_vector(payload().summation(), lane.call.problem.dtype, parts, ranks(),
                        sum_order(lane, row, vector, order),
                        static_cast<std::size_t>(lane.call.problem.width), v);
}

// The order of a sum is chosen where the policy depends on one: null for rank order.
const int* TokenWeave::sum_order(Lane& lane, std::int64_t row, std::int64_t vector, int* order) {
  const verify::Summation policy = payload().summation();
  if (policy == verify::Summation::fp32_rank_order || policy == verify::Summation::exact_once ||
      ranks() == 1) {
    return nullptr;
  }
  // The seeded order is another one for each vector even where all choices are their defaults.
  const std::uint32_t orders = sum_orders(ranks());
  std::uint32_t index = lane.agent.choose(schedule::DecisionKind::sum, orders);
  if (policy == verify::Summation::fp32_given_order) {
    const std::uint64_t name = (std::uint64_t{lane.place.call} << 40) +
                               static_cast<std::uint64_t>(row) * 0x10001u +
                               static_cast<std::uint64_t>(vector);
    index = static_cast<std::uint32_t>((index + payload().order_seed(name)) % orders);
  }
  sum_order_at(index, ranks(), order);
  return order;
}

// Butterfly shuffles in each warp, lane 0 to shared memory, the same over the warps' sums.
float TokenWeave::block_sum(const Block& block) {
  float warps[32] = {};
  for (std::size_t w = 0; w * 32 < block.lanes.size(); ++w) {
    warps[w] = verify::butterfly_sum(block.lanes.data() + w * 32);
  }
  return verify::butterfly_sum(warps);
}

// -- names ----------------------------------------------------------------------------------------

std::optional<std::uint64_t> TokenWeave::dirty_slot(std::uint32_t region) const {
  // As if the last rank's signal to block 0 had been left behind.
  return region == pad_[0] ? std::optional((ranks() - 1u) * kSlotBytes) : std::nullopt;
}

SiteWork TokenWeave::site_work(std::uint16_t site) const {
  switch (site) {
    case kProductPartial:
      return SiteWork::product;
    case kSumSync:
    case kScaleSync:
      return SiteWork::row_sum;
    case kEndCheck:
    case kZeroPads:
    case kProductResidual:
    case kConsume:
      return SiteWork::aside;
    default:
      return SiteWork::access;
  }
}

std::uint16_t TokenWeave::zero_site() const { return kZeroPads; }
std::uint16_t TokenWeave::consume_site() const { return kConsume; }

schedule::SlotName TokenWeave::slot_of(const RegionInfo& region, std::uint64_t offset) const {
  const std::uint64_t slot = offset / kSlotBytes;
  const auto block = static_cast<std::uint32_t>(slot / ranks());
  const auto from = static_cast<std::uint32_t>(slot % ranks());
  schedule::SlotName name;
  name.text = fmt::format("start/end pad of rank {}, block {}, from rank {}{}", region.rank, block,
                          from, group_text(region.group));
  if (block >= grid(from)) {
    name.writer = fmt::format("nobody: rank {} has {} blocks", from, grid(from));
  } else {
    name.writer = fmt::format("r{}.b{}.t{}", from, region.group * grid(from) + block, region.rank);
  }
  return name;
}

std::string TokenWeave::slot_writer(machine::Address at, const machine::Wanted& wanted) const {
  const RegionInfo& pad = info(at.region);
  if (pad.spec.kind != RegionKind::signal) return {};
  if (wanted.value != 0) return slot_of(pad, at.offset).writer;
  const std::uint64_t slot = at.offset / kSlotBytes;
  return fmt::format("r{}.b{}.t{}", pad.rank, pad.group * grid(pad.rank) + slot / ranks(),
                     slot % ranks());
}

std::string TokenWeave::site_name(std::uint16_t site) const {
  const auto how = [&](Order order, Scope scope) {
    return order == Order::weak ? std::string("weak")
                                : fmt::format("{}.{}", machine::name(order), machine::name(scope));
  };
  const auto cas = [&](const char* what, Order order, const char* change) {
    return fmt::format("tokenweave.cpp: {} ({} CAS {})", what, how(order, switches_.scope), change);
  };
  switch (site) {
    case kEndCheck:
      return "check after the last launch";
    case kZeroPads:
      return "tokenweave.cpp: late zeroing of the pads (weak store)";
    case kProductPartial:
      return "tokenweave.cpp: product: store of the partial sums (weak)";
    case kProductResidual:
      return "tokenweave.cpp: product: store of the residual (weak)";
    case kStartPut:
      return cas("start barrier put", switches_.start_put, "0->1");
    case kStartWait:
      return cas("start barrier wait", switches_.start_wait, "1->0");
    case kStartSync:
      return "tokenweave.cpp: block barrier after the start barrier";
    case kLdReduce:
      return fmt::format("tokenweave.cpp: multimem.ld_reduce ({})",
                         how(switches_.ld_reduce, Scope::sys));
    case kLoadResidual:
      return "tokenweave.cpp: load of the residual (weak)";
    case kStoreResidual:
      return "tokenweave.cpp: store of residual_out (weak)";
    case kSumSync:
      return "tokenweave.cpp: block barrier of the sum of squares";
    case kScaleSync:
      return "tokenweave.cpp: block barrier of the scale";
    case kStore:
      return fmt::format("tokenweave.cpp: multimem.st ({})", how(switches_.st, Scope::sys));
    case kEndSync:
      return "tokenweave.cpp: block barrier before the end barrier";
    case kEndPut:
      return cas("end barrier put", switches_.end_put, "0->1");
    case kEndWait:
      return cas("end barrier wait", switches_.end_wait, "1->0");
    case kConsume:
      return "tokenweave.cpp: consumer: load of the results (weak)";
    default:
      return fmt::format("site {}", site);
  }
}

ProtocolDefinition tokenweave() {
  return define_protocol<TokenWeave, TokenWeaveSwitches>(
      "tokenweave",
      "reduce-scatter, residual add, RMSNorm and all-gather in one pass over multicast memory",
      {machine::Boundary::coherent}, verify::Flavour::tokenweave, /*fp32=*/true);
}

}  // namespace ringfence::programs

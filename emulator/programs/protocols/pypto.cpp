#include "emulator/programs/protocols/pypto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <stdexcept>

#include "emulator/programs/protocol.hpp"
#include "verify/rows.hpp"

namespace ringfence::programs {

namespace {

using machine::Access;
using machine::Order;
using machine::Proxy;
using machine::RegionKind;
using machine::Scope;
using schedule::Agent;

enum Site : std::uint16_t {
  kZeroSignals = shmem::kFirstOwn,
  kProductX,
  kProductResidual,
  kMatmulX,
  kNormResidual,
  kNormOut,
  kNormResidualOut,
  kConsume,
};

std::uint64_t tiles_of(std::int64_t tokens, std::uint32_t tile_rows) {
  return (static_cast<std::uint64_t>(tokens) + tile_rows - 1) / tile_rows;
}

// No tile is larger than all rows.
std::uint64_t tile_bytes_of(const verify::Problem& p, std::uint32_t tile_rows) {
  const auto rows = std::min<std::uint64_t>(tile_rows, static_cast<std::uint64_t>(p.tokens));
  return rows * static_cast<std::uint64_t>(p.hidden) * verify::dtype_bytes(p.dtype);
}

// "M,K,N": the order of a sum depends on K alone.
bool set_tiles(std::int64_t& inner, std::string_view value) {
  std::int64_t sizes[3] = {};
  for (std::int64_t& size : sizes) {
    const std::string_view one = value.substr(0, value.find(','));
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), size);
    if (error != std::errc{} || end != one.data() + one.size() || size < 1 || size > 65536) {
      return false;
    }
    const bool last = &size == std::end(sizes) - 1;
    if (last != (one.size() == value.size())) return false;
    if (!last) value.remove_prefix(one.size() + 1);
  }
  inner = sizes[1];
  return true;
}

constexpr std::uint64_t kMaxTiles = 65535;  // of an agent's label

}  // namespace

void PyPtoSwitches::list(SwitchList& list) {
  list.none("clear.data", clear_data);
  list.none("clear.signal", clear_signal);
  list.none("barrier_all", barrier_all);
  list.order("put.order", Orders::red, put);
  list.order("signal.order", Orders::red, signal);
  list.order("wait.order", Orders::poll, wait);
  list.order("barrier.signal", Orders::red, barrier_signal);
  list.order("barrier.wait", Orders::poll, barrier_wait);
  list.add({"wait.cmp", "GE", "EQ or GE",
            [this](std::string_view v) {
              wait_compare = v == "EQ" ? machine::Compare::eq : machine::Compare::ge;
              return v == "EQ" || v == "GE";
            },
            true});
  list.none("shmem_edges", shmem_edges);
  list.none("pred_edges", pred_edges);
  list.add({"tiles", "M,K,N",
            "the tile of the matrix product, each from 1 to 65536, such as 128,64,256",
            [this](std::string_view v) { return set_tiles(tile_inner, v); }});
  list.number("tile_rows", "N", "a number of token rows from 1 to 65536", 1, 65536,
              [this](std::uint64_t n) { tile_rows = static_cast<std::uint32_t>(n); });
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
  list.number("data_limit", "BYTES", "a number of bytes from 1 to 2^40", 1, kMostBytes,
              [this](std::uint64_t n) { data_limit = n; });
  list.number("signal_limit", "BYTES", "a number of bytes from 1 to 2^40", 1, kMostBytes,
              [this](std::uint64_t n) { signal_limit = n; });
  list_scope(list);
  list_operators(list);
}

PyPto::PyPto(const Config& config, const PyPtoSwitches& switches)
    : OperatorProgram(config, switches), switches_(switches) {
  const verify::Problem& p = payload().problem();
  switches_.check(config, p);
  const std::uint64_t tile_bytes = tile_bytes_of(p, switches_.tile_rows);
  std::uint64_t tiles = 0;
  for (std::uint32_t c = 0; c < payload().calls(); ++c) {
    tiles += tiles_of(payload().shape(0, c).problem.tokens, switches_.tile_rows);
  }
  const std::uint32_t slots =
      shmem::World::ring_slots(tile_bytes, switches_.data_limit, switches_.signal_limit, tiles);

  const shmem::Orders orders{switches_.put,          switches_.signal,
                             switches_.wait,         switches_.barrier_signal,
                             switches_.barrier_wait, switches_.scope};
  const auto rows = static_cast<std::uint64_t>(p.tokens);
  for (std::uint32_t g = 0; g < payload().groups(); ++g) {
    worlds_.emplace_back(ranks(), tile_bytes, slots, orders, p.dtype);
    for (std::uint16_t r = 0; r < ranks(); ++r) {
      const auto data = [&](const char* name, std::uint64_t bytes) {
        return add_region(name, r, g, RegionKind::data, bytes);
      };
      const auto signal = [&](const char* name) {
        return add_region(name, r, g, RegionKind::signal, slots * shmem::kSignalBytes);
      };
      x_.push_back(
          data("x", rows * static_cast<std::uint64_t>(p.inner_per_rank()) * element_bytes()));
      residual_.push_back(data("residual", rows * row_bytes()));
      out_.push_back(data("out", rows * row_bytes()));
      residual_out_.push_back(data("residual_out", rows * row_bytes()));
      data_.push_back(data("data tiles", slots * tile_bytes));
      signal_.push_back(signal("signal"));
      barrier_.push_back(signal("barrier counter"));
      loaded_.emplace_back(rows * row_bytes());
    }
  }
  for (std::uint16_t r = 0; r < ranks(); ++r) {
    std::uint64_t ring_index = 0;
    for (std::uint32_t c = 0; c < payload().calls(); ++c) {
      for (std::uint32_t g = 0; g < payload().groups(); ++g) {
        graphs_.push_back(build({g, r, c}, ring_index));
      }
      ring_index += tiles_of(payload().shape(0, c).problem.tokens, switches_.tile_rows);
    }
  }
}

void PyPtoSwitches::check(const Config&, const verify::Problem& p) const {
  const std::uint64_t row_bytes =
      static_cast<std::uint64_t>(p.hidden) * verify::dtype_bytes(p.dtype);
  if (signal_limit < shmem::kSignalBytes) {
    throw std::invalid_argument(fmt::format("--set signal_limit={}: a slot takes {} bytes",
                                            signal_limit, shmem::kSignalBytes));
  }
  if (data_limit < row_bytes) {
    throw std::invalid_argument(
        fmt::format("--set data_limit={}: one token row takes {} bytes", data_limit, row_bytes));
  }
  if (tile_bytes_of(p, tile_rows) > data_limit) {
    throw std::invalid_argument(
        fmt::format("--set tile_rows={}: a tile takes {} bytes and data_limit is {}: use "
                    "tile_rows={} or less",
                    tile_rows, tile_bytes_of(p, tile_rows), data_limit, data_limit / row_bytes));
  }
  const std::uint64_t tiles = groups * tiles_of(p.tokens, tile_rows);
  if (tiles > kMaxTiles) {
    const auto rows = static_cast<std::uint64_t>(p.tokens);
    throw std::invalid_argument(fmt::format(
        "--set tile_rows={}: {} tiles in a call, expected at most {}: use tile_rows={} or more",
        tile_rows, tiles, kMaxTiles,
        (rows * groups + kMaxTiles - groups) / (kMaxTiles - groups + 1)));
  }
}

void PyPto::set_up(machine::Machine& machine, std::pmr::memory_resource* shared) {
  OperatorProgram::set_up(machine, shared);
  for (std::uint32_t g = 0; g < payload().groups(); ++g) {
    const auto ids = [&](const std::vector<std::uint32_t>& regions) {
      std::vector<machine::RegionId> out;
      for (std::uint16_t r = 0; r < ranks(); ++r) {
        out.push_back(at(regions[g * ranks() + r], 0).region);
      }
      return out;
    };
    worlds_[g].bind(ids(data_), ids(signal_), ids(barrier_));
  }
}

// The launch before: this rank's columns of x, and its copy of the residual.
void PyPto::produce(Agent& agent, const Place& p) {
  const Payload::Call& c = call_of(p);
  const std::uint64_t x_bytes =
      static_cast<std::uint64_t>(c.problem.inner_per_rank()) * element_bytes();
  for (std::int64_t row = 0; row < c.problem.tokens; ++row) {
    agent.write(at(x_[index(p)], static_cast<std::uint64_t>(row) * x_bytes), weak(kProductX),
                c.x.row_bytes(row).subspan(p.rank * x_bytes, x_bytes));
  }
  for (std::int64_t row = 0; row < c.problem.tokens; ++row) {
    agent.write(row_of(residual_, p, row), weak(kProductResidual), c.residual.row_bytes(row));
  }
}

std::unique_ptr<shmem::Graph> PyPto::build(const Place& p, std::uint64_t ring_index) {
  auto graph =
      std::make_unique<shmem::Graph>(worlds_[p.group], p.rank, ring_index,
                                     shmem::Edges{switches_.pred_edges, switches_.shmem_edges});
  const std::int64_t tokens = payload().shape(p.group, p.call).problem.tokens;
  const std::int64_t tile_rows = switches_.tile_rows;
  for (std::int64_t first = 0; first < tokens; first += tile_rows) {
    tile(*graph, p, first, std::min(tile_rows, tokens - first));
  }
  return graph;
}

// One tile, in the order of the program text.
void PyPto::tile(shmem::Graph& g, const Place& p, std::int64_t first, std::int64_t rows) {
  using shmem::PutOp;
  const Payload::Call& c = payload().shape(p.group, p.call);
  const std::uint64_t begin = static_cast<std::uint64_t>(first) * row_bytes();
  const std::uint64_t bytes = static_cast<std::uint64_t>(rows) * row_bytes();
  const shmem::Tensor data = g.create_shmem_tensor(bytes);
  const shmem::Signal signal = g.create_shmem_signal();

  shmem::Graph::Preds cleared;
  if (switches_.clear_data) cleared.push_back(g.shmem_clear_data(data));
  if (switches_.clear_signal) cleared.push_back(g.shmem_clear_signal(signal));
  const shmem::Graph::Preds ready =
      switches_.barrier_all ? shmem::Graph::Preds{g.shmem_barrier_all(cleared)} : cleared;
  const shmem::Value partial =
      g.compute([this, p, first, rows](Agent& a) { matmul(a, p, first, rows); },
                std::span(c.partials[p.rank].bytes).subspan(begin, bytes));
  for (std::uint16_t pe = 0; pe < ranks(); ++pe) {
    const shmem::Op put = g.shmem_put(partial, data, pe, PutOp::add, ready);
    const std::uint16_t whom = switches_.wrong_slot ? (pe + 1) % ranks() : pe;
    g.shmem_signal(signal, whom, 1, PutOp::add, {put});
  }
  const shmem::Op arrived =
      g.shmem_wait_until(signal, switches_.wait_compare, ranks(), /*clear=*/true);
  const shmem::Value sum =
      g.shmem_load(data, std::span(loaded_[index(p)]).subspan(begin, bytes), {arrived});
  g.compute([this, p, first, rows](Agent& a) { norm(a, p, first, rows); }, {}, {sum});
}

// The product itself is made ahead: x was written by this rank's stream, so that it is what it
// should be. Its loads are here for the order they need.
void PyPto::matmul(Agent& agent, const Place& p, std::int64_t first, std::int64_t rows) {
  const std::int64_t count = rows * call_of(p).problem.inner_per_rank();
  std::vector<std::byte> x(static_cast<std::size_t>(count) * element_bytes());
  agent.read(at(x_[index(p)], static_cast<std::uint64_t>(first * count / rows) * element_bytes()),
             weak(kMatmulX), x);
}

void PyPto::norm(Agent& agent, const Place& p, std::int64_t first, std::int64_t rows) {
  verify::with_patterns(call_of(p).problem.dtype,
                        [&](auto bits) { norm_of<decltype(bits)>(agent, p, first, rows); });
}

template <typename Bits>
void PyPto::norm_of(Agent& agent, const Place& p, std::int64_t first, std::int64_t rows) {
  const Payload::Call& c = call_of(p);
  const auto hidden = static_cast<std::size_t>(c.problem.hidden);
  verify::Norm norm;
  norm.dtype = c.problem.dtype;
  norm.hidden = c.problem.hidden;
  norm.eps = c.problem.eps;
  norm.set_gamma(c.gamma);
  if (c.problem.has_beta) norm.set_beta(c.beta);
  const auto* const sums = reinterpret_cast<const Bits*>(loaded_[index(p)].data());
  std::vector<Bits> out(hidden), residual(hidden);
  for (std::int64_t row = first; row < first + rows; ++row) {
    agent.read(row_of(residual_, p, row), weak(kNormResidual),
               std::as_writable_bytes(std::span(residual)));
    verify::pypto_row(norm, sums + row * c.problem.hidden, residual.data(), out.data(),
                      residual.data());
    agent.write(out_row(p, row), weak(kNormOut), std::as_bytes(std::span(out)));
    agent.write(residual_out_row(p, row), weak(kNormResidualOut),
                std::as_bytes(std::span(residual)));
  }
}

void PyPto::run_groups(Agent& host, std::uint16_t rank, std::uint32_t call, std::uint32_t first,
                       std::uint32_t last) {
  const std::uint32_t groups = payload().groups();
  std::vector<shmem::Graph*> graphs;
  for (std::uint32_t g = first; g < last; ++g) {
    graphs.push_back(graphs_[(rank * payload().calls() + call) * groups + g].get());
  }
  // Launches of one call need labels of their own.
  const auto label = static_cast<std::uint16_t>(switches_.waves ? first : 0);
  shmem::launch(host, stream(rank), static_cast<std::uint16_t>(call), graphs, label);
}

// -- names ----------------------------------------------------------------------------------------

std::optional<std::uint64_t> PyPto::dirty_slot(std::uint32_t region) const {
  return region == signal_[0] ? std::optional(std::uint64_t{0}) : std::nullopt;
}

SiteWork PyPto::site_work(std::uint16_t site) const {
  switch (site) {
    case kMatmulX:
      return SiteWork::product;
    case kNormOut:
      return SiteWork::row_sum;
    case 0:
    case kZeroSignals:
    case kProductX:
    case kProductResidual:
    case kConsume:
      return SiteWork::aside;
    default:
      return SiteWork::access;
  }
}

std::uint16_t PyPto::zero_site() const { return kZeroSignals; }
std::uint16_t PyPto::consume_site() const { return kConsume; }

schedule::SlotName PyPto::slot_of(const RegionInfo& region, std::uint64_t offset) const {
  const std::uint64_t slot = offset / shmem::kSignalBytes;
  schedule::SlotName name;
  name.text = fmt::format("{} of rank {}, ring slot {}{}", region.name, region.rank, slot,
                          group_text(region.group));
  name.writer = std::string_view(region.name) == "signal"
                    ? fmt::format("every rank's shmem_signal to rank {}", region.rank)
                    : std::string("every rank's shmem_barrier_all");
  return name;
}

std::string PyPto::site_name(std::uint16_t site) const {
  switch (site) {
    case 0:
      return "check after the last launch";
    case kZeroSignals:
      return "pypto.cpp: late zeroing of the signal and barrier slots (weak store)";
    case kProductX:
      return "pypto.cpp: product: store of x (weak)";
    case kProductResidual:
      return "pypto.cpp: product: store of the residual (weak)";
    case kMatmulX:
      return "pypto.cpp: matmul: load of x (weak)";
    case kNormResidual:
      return "pypto.cpp: norm: load of the residual (weak)";
    case kNormOut:
      return "pypto.cpp: norm: store of out (weak)";
    case kNormResidualOut:
      return "pypto.cpp: norm: store of residual_out (weak)";
    case kConsume:
      return "pypto.cpp: consumer: load of the results (weak)";
    default:
      return "pypto.cpp: " + shmem::site_name(site, worlds_.front().orders());
  }
}

ProtocolDefinition pypto() {
  using enum machine::Boundary;
  return define_protocol<PyPto, PyPtoSwitches>(
      "pypto",
      "push with atomic add into the peers' tiles, then the norm: a task graph over symmetric "
      "memory",
      {strict, stream, coherent}, verify::Flavour::pypto, /*fp32=*/true);
}

}  // namespace ringfence::programs

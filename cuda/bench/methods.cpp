#include "cuda/bench/methods.hpp"

#include <fmt/format.h>

#include <string_view>

#include "cuda/bench/bandwidth.hpp"
#include "cuda/host/check.hpp"
#include "cuda/host/error.hpp"
#include "cuda/kernels/unfused.hpp"

namespace ringfence::cuda {
namespace {

/// Tensors of a method, filled with numbers of magnitude 1.
struct Tensors {
  std::vector<DeviceBuffer> x, weight, residual, gamma, out;
};

void fill(const DeviceBuffer& buffer, bool bf16, unsigned seed) {
  const DeviceScope scope(buffer.device());
  check(launch_fill(buffer.get(), buffer.bytes() / 2, bf16, seed, nullptr), "fill");
  check(cudaDeviceSynchronize(), "fill");
}

std::shared_ptr<Tensors> make_tensors(const Bench& b, bool product) {
  auto t = std::make_shared<Tensors>();
  const size_t rows = static_cast<size_t>(b.tokens);
  const size_t h = static_cast<size_t>(b.options.hidden);
  const size_t k = static_cast<size_t>(b.options.inner / b.world.size());
  const bool bf16 = data_type(b.options.dtype) == DataType::bf16;
  unsigned seed = 1;
  for (const World::Member& m : b.world.members()) {
    t->residual.emplace_back(m.device, rows * h * 2);
    t->gamma.emplace_back(m.device, h * 2);
    t->out.emplace_back(m.device, rows * h * 2);
    fill(t->residual.back(), bf16, ++seed + 100 * static_cast<unsigned>(m.rank));
    fill(t->gamma.back(), bf16, ++seed);
    if (product) {
      t->x.emplace_back(m.device, rows * k * 2);
      t->weight.emplace_back(m.device, h * k * 2);
      fill(t->x.back(), bf16, ++seed + 100 * static_cast<unsigned>(m.rank));
      fill(t->weight.back(), bf16, ++seed + 100 * static_cast<unsigned>(m.rank));
    }
  }
  return t;
}

TokenweaveOptions tokenweave_options(const Bench& b) {
  TokenweaveOptions o;
  o.dtype = data_type(b.options.dtype);
  o.transport = parse_transport(b.options.transport);
  o.push_tokens = push_tokens_of(b.options);
  o.start = b.options.start;
  o.max_tokens = b.tokens;
  o.hidden = static_cast<int>(b.options.hidden);
  o.eps = static_cast<float>(b.options.eps);
  o.blocks = b.blocks;
  o.stream_a_rank = b.options.stream_a_rank;
  o.timeout_ns = static_cast<uint64_t>(b.options.timeout_seconds * 1e9);
  return o;
}

std::shared_ptr<Tokenweave> make_tokenweave(const Bench& b, Tensors& t, StartOrder start,
                                            bool push = false) {
  TokenweaveOptions o = tokenweave_options(b);
  o.start = start;
  o.launch = b.options.dependent_launch ? Launch::dependent : Launch::cooperative;
  if (push) o.transport = Transport::push;
  auto fused = std::make_shared<Tokenweave>(b.world, o);
  for (size_t i = 0; i < b.world.members().size(); ++i) {
    // In place in the residual, as an engine does it.
    fused->set_tensors(i, {t.residual[i].get(), t.residual[i].get(), t.gamma[i].get(), nullptr});
    const DeviceScope scope(b.world.members()[i].device);
    check(launch_fill(fused->buffer(i),
                      static_cast<size_t>(b.tokens) * static_cast<size_t>(b.options.hidden),
                      o.dtype == DataType::bf16, 77 + static_cast<unsigned>(i), nullptr),
          "fill");
    check(cudaDeviceSynchronize(), "fill");
  }
  return fused;
}

std::vector<cudaStream_t> streams_of(const World& world, bool one) {
  std::vector<cudaStream_t> streams;
  for (const World::Member& m : world.members()) {
    streams.push_back(m.stream);
    if (one) break;
  }
  return streams;
}

bool virtual_world(const World& world) { return world.kind() == World::Kind::virtual_ranks; }

AddRmsNormArgs norm_args(const Bench& b, const void* input, void* out, void* residual,
                         const void* gamma, int64_t rows) {
  AddRmsNormArgs a{};
  a.input = input;
  a.residual = residual;
  a.residual_out = residual;
  a.out = out;
  a.gamma = gamma;
  a.rows = rows;
  a.hidden = static_cast<int>(b.options.hidden);
  a.eps = static_cast<float>(b.options.eps);
  return a;
}

Method fused(const Bench& b, StartOrder start, bool push = false) {
  auto t = make_tensors(b, false);
  auto op = make_tokenweave(b, *t, start, push);
  const int64_t tokens = b.tokens;
  Method m;
  m.enqueue = [op, tokens] { op->enqueue(tokens); };
  m.streams = streams_of(b.world, virtual_world(b.world) && !b.options.stream_a_rank);
  m.holds = {t, op};
  return m;
}

/// Arguments for the unfused kernels of virtual ranks: the replicas and the shape.
TokenweaveArgs unfused_args(const Bench& b, const SymmetricMemory& replicas) {
  TokenweaveArgs a{};
  for (int r = 0; r < b.world.size(); ++r) a.replica[r] = replicas.replica(r);
  a.tokens = b.tokens;
  a.hidden = static_cast<int>(b.options.hidden);
  a.world = b.world.size();
  return a;
}

/// Virtual ranks: sum of the own rows, add + norm of them, broadcast of them. The ranks' own rows
/// lie in one tensor, so a launch serves all ranks.
Method unfused(const Bench& b) {
  auto t = make_tensors(b, false);
  std::shared_ptr<SymmetricMemory> replicas = b.world.allocate(t->residual[0].bytes());
  for (int r = 0; r < b.world.size(); ++r) {
    check(launch_fill(replicas->replica(r), t->residual[0].bytes() / 2,
                      data_type(b.options.dtype) == DataType::bf16, 77u + static_cast<unsigned>(r),
                      nullptr),
          "fill");
  }
  check(cudaDeviceSynchronize(), "fill");
  const TokenweaveArgs args = unfused_args(b, *replicas);
  const DataType dtype = data_type(b.options.dtype);
  const cudaStream_t stream = b.world.members().front().stream;
  std::vector<void*> sum(kMaxRanks, t->out[0].get());
  std::vector<const void*> rows(kMaxRanks, t->out[0].get());
  const AddRmsNormArgs norm = norm_args(b, t->out[0].get(), t->out[0].get(), t->residual[0].get(),
                                        t->gamma[0].get(), b.tokens);
  Method m;
  m.enqueue = [=] {
    check(launch_reduce_scatter(args, sum.data(), dtype, stream), "reduce-scatter");
    check(launch_add_rmsnorm(norm, dtype, stream), "add + RMSNorm");
    check(launch_all_gather(args, rows.data(), dtype, stream), "all-gather");
  };
  m.streams = {stream};
  m.holds = {t, replicas};
  return m;
}

/// Virtual ranks: an all-reduce (sum, broadcast), then every rank adds and norms all rows, as an
/// engine without sharded norms does.
Method unfused_replicated(const Bench& b) {
  auto t = make_tensors(b, false);
  std::shared_ptr<SymmetricMemory> replicas = b.world.allocate(t->residual[0].bytes());
  const TokenweaveArgs args = unfused_args(b, *replicas);
  const DataType dtype = data_type(b.options.dtype);
  const cudaStream_t stream = b.world.members().front().stream;
  std::vector<void*> sum(kMaxRanks, t->out[0].get());
  std::vector<const void*> rows(kMaxRanks, t->out[0].get());
  std::vector<AddRmsNormArgs> norms;
  for (int r = 0; r < b.world.size(); ++r) {
    const size_t i = static_cast<size_t>(r);
    norms.push_back(norm_args(b, replicas->replica(r), replicas->replica(r), t->residual[i].get(),
                              t->gamma[i].get(), b.tokens));
  }
  Method m;
  m.enqueue = [=] {
    check(launch_reduce_scatter(args, sum.data(), dtype, stream), "reduce-scatter");
    check(launch_all_gather(args, rows.data(), dtype, stream), "all-gather");
    for (const AddRmsNormArgs& n : norms) check(launch_add_rmsnorm(n, dtype, stream), "norm");
  };
  m.streams = {stream};
  m.holds = {t, replicas};
  return m;
}

/// NCCL and a separate add + RMSNorm: all-reduce then all rows, or reduce-scatter, own rows,
/// all-gather.
Method nccl(const Bench& b, bool scatter) {
  if (b.nccl == nullptr) throw Error(ErrorCode::not_supported, "NCCL is not there");
  auto t = make_tensors(b, false);
  const int64_t each = (b.tokens + b.world.size() - 1) / b.world.size();
  if (scatter && b.tokens % b.world.size() != 0) {
    throw Error(ErrorCode::invalid_argument,
                "reduce-scatter needs tokens that divide by the ranks");
  }
  auto data = std::make_shared<std::vector<void*>>();
  for (DeviceBuffer& buffer : t->out) {
    fill(buffer, data_type(b.options.dtype) == DataType::bf16, 5);
    data->push_back(buffer.get());
  }
  const DataType dtype = data_type(b.options.dtype);
  const size_t count = static_cast<size_t>(b.tokens) * static_cast<size_t>(b.options.hidden);
  const size_t row_bytes = static_cast<size_t>(b.options.hidden) * 2;
  const std::vector<World::Member> members = b.world.members();
  std::vector<AddRmsNormArgs> norms;
  for (size_t i = 0; i < members.size(); ++i) {
    const size_t offset =
        scatter ? static_cast<size_t>(each) * static_cast<size_t>(members[i].rank) * row_bytes : 0;
    char* rows = static_cast<char*>((*data)[i]) + offset;
    norms.push_back(norm_args(b, rows, rows, static_cast<char*>(t->residual[i].get()) + offset,
                              t->gamma[i].get(), scatter ? each : b.tokens));
  }
  const Nccl* library = b.nccl;
  const size_t ranks = static_cast<size_t>(b.world.size());
  Method m;
  m.enqueue = [=] {
    if (scatter) {
      library->reduce_scatter(data->data(), count / ranks, dtype);
    } else {
      library->all_reduce(data->data(), count, dtype);
    }
    for (size_t i = 0; i < members.size(); ++i) {
      const DeviceScope scope(members[i].device);
      check(launch_add_rmsnorm(norms[i], dtype, members[i].stream), "norm");
    }
    if (scatter) library->all_gather(data->data(), count / ranks, dtype);
  };
  m.streams = streams_of(b.world, false);
  m.holds = {t, data};
  return m;
}

/// The product of every member, on its stream; with rest: and then something.
struct Products {
  std::vector<Product> product;
};
std::shared_ptr<Products> make_products(const Bench& b) {
  auto p = std::make_shared<Products>();
  for (const World::Member& m : b.world.members()) {
    if (virtual_world(b.world) && !p->product.empty()) break;
    p->product.emplace_back(m.device, data_type(b.options.dtype),
                            static_cast<int>(b.options.inner / b.world.size()),
                            static_cast<int>(b.options.hidden));
    p->product.back().prepare(b.tokens);
  }
  return p;
}

void enqueue_products(const Bench& b, const Products& p, const Tensors& t,
                      const std::function<void*(size_t)>& to) {
  const bool one = virtual_world(b.world);
  for (size_t i = 0; i < b.world.members().size(); ++i) {
    const World::Member& m = b.world.members()[one ? 0 : i];
    const DeviceScope scope(m.device);
    p.product[one ? 0 : i].enqueue(t.x[i].get(), t.weight[i].get(), to(i), b.tokens, m.stream);
  }
}

Method product_only(const Bench& b) {
  auto t = make_tensors(b, true);
  auto p = make_products(b);
  Method m;
  m.enqueue = [=] { enqueue_products(b, *p, *t, [&](size_t i) { return t->out[i].get(); }); };
  m.streams = streams_of(b.world, virtual_world(b.world));
  m.holds = {t, p};
  return m;
}

Method product_then_fused(const Bench& b) {
  auto t = make_tensors(b, true);
  auto p = make_products(b);
  auto op = make_tokenweave(b, *t, b.options.start);
  Method m;
  m.enqueue = [=] {
    enqueue_products(b, *p, *t, [&](size_t i) { return op->buffer(i); });
    op->enqueue(b.tokens);
  };
  m.streams = streams_of(b.world, virtual_world(b.world));
  m.holds = {t, p, op};
  return m;
}

/// What pypto is compared with: the product, then the unfused rest. Virtual ranks.
Method product_then_unfused(const Bench& b) {
  auto t = make_tensors(b, true);
  auto p = make_products(b);
  std::shared_ptr<SymmetricMemory> replicas = b.world.allocate(t->residual[0].bytes());
  auto rest = std::make_shared<Method>(unfused_replicated(b));
  Method m;
  m.enqueue = [=] {
    enqueue_products(b, *p, *t, [&](size_t i) { return replicas->replica(static_cast<int>(i)); });
    rest->enqueue();
  };
  m.streams = streams_of(b.world, true);
  m.holds = {t, p, replicas, rest};
  return m;
}

Method product_then_nccl(const Bench& b) {
  auto t = make_tensors(b, true);
  auto p = make_products(b);
  auto rest = std::make_shared<Method>(nccl(b, false));
  Method m;
  m.enqueue = [=] {
    enqueue_products(b, *p, *t, [&](size_t i) { return t->out[i].get(); });
    rest->enqueue();
  };
  m.streams = streams_of(b.world, false);
  m.holds = {t, p, rest};
  return m;
}

Method waves(const Bench& b, int count) {
  auto t = make_tensors(b, true);
  FusedOptions o;
  o.tokenweave = tokenweave_options(b);
  o.inner = static_cast<int>(b.options.inner / b.world.size());
  o.waves = count;
  o.wave_blocks = b.options.wave_blocks;
  auto op = std::make_shared<FusedOperator>(b.world, o);
  for (size_t i = 0; i < b.world.members().size(); ++i) {
    op->set_tensors(i, {t->x[i].get(),
                        t->weight[i].get(),
                        {t->residual[i].get(), t->residual[i].get(), t->gamma[i].get(), nullptr}});
  }
  op->prepare(b.tokens);
  const int64_t tokens = b.tokens;
  Method m;
  m.captured = false;  // it is a graph already
  m.enqueue = [op, tokens] { op->enqueue(tokens); };
  m.streams = streams_of(b.world, virtual_world(b.world));
  m.holds = {t, op};
  return m;
}

Method pypto(const Bench& b) {
  auto t = make_tensors(b, true);
  PyptoOptions o;
  o.max_tokens = b.tokens;
  o.inner = static_cast<int>(b.options.inner / b.world.size());
  o.hidden = static_cast<int>(b.options.hidden);
  o.eps = static_cast<float>(b.options.eps);
  o.blocks = b.blocks;
  o.chunk = b.options.chunk;
  o.slots = b.options.slots;
  o.tile_rows = b.tokens <= 8 ? 8 : b.tokens <= 64 ? 64 : 128;
  o.pipelined = b.options.pipelined;
  o.owned = b.options.owned;
  o.timeout_ns = static_cast<uint64_t>(b.options.timeout_seconds * 1e9);
  auto op = std::make_shared<Pypto>(b.world, o);
  for (size_t i = 0; i < b.world.members().size(); ++i) {
    op->set_tensors(i, {t->x[i].get(), t->weight[i].get(), t->residual[i].get(),
                        t->residual[i].get(), t->out[i].get(), t->gamma[i].get(), nullptr});
  }
  const int64_t tokens = b.tokens;
  Method m;
  m.enqueue = [op, tokens] { op->enqueue(tokens); };
  m.streams = streams_of(b.world, virtual_world(b.world));
  m.holds = {t, op};
  return m;
}

struct Entry {
  const char* name;
  const char* baseline;
  bool whole;
  bool virtual_only;
  bool real_only;
  bool needs_nccl;
  Method (*make)(const Bench&);
};

const Entry kMethods[] = {
    {"unfused", "", false, true, false, false, [](const Bench& b) { return unfused(b); }},
    {"unfused-replicated", "", false, true, false, false,
     [](const Bench& b) { return unfused_replicated(b); }},
    {"nccl", "", false, false, true, true, [](const Bench& b) { return nccl(b, false); }},
    {"nccl-rs-ag", "", false, false, true, true, [](const Bench& b) { return nccl(b, true); }},
    {"fused", "unfused|nccl", false, false, false, false,
     [](const Bench& b) { return fused(b, b.options.start); }},
    {"fused-strict", "unfused|nccl", false, false, false, false,
     [](const Bench& b) { return fused(b, StartOrder::strict); }},
    {"fused-push", "unfused|nccl", false, false, false, false,
     [](const Bench& b) { return fused(b, b.options.start, true); }},
    {"product", "", true, false, false, false, [](const Bench& b) { return product_only(b); }},
    {"product+unfused", "", true, true, false, false,
     [](const Bench& b) { return product_then_unfused(b); }},
    {"product+nccl", "", true, false, true, true,
     [](const Bench& b) { return product_then_nccl(b); }},
    {"product+fused", "product+unfused|product+nccl", true, false, false, false,
     [](const Bench& b) { return product_then_fused(b); }},
    {"waves2", "product+fused", true, false, false, false,
     [](const Bench& b) { return waves(b, 2); }},
    {"waves4", "product+fused", true, false, false, false,
     [](const Bench& b) { return waves(b, 4); }},
    {"waves8", "product+fused", true, false, false, false,
     [](const Bench& b) { return waves(b, 8); }},
    {"pypto", "product+unfused|product+nccl", true, false, false, false,
     [](const Bench& b) { return pypto(b); }},
};

bool possible(const Entry& e, const World& world, bool has_nccl) {
  if (e.virtual_only && !virtual_world(world)) return false;
  if (std::string_view(e.name) == "fused-push" && world.size() == 1) return false;
  if (e.real_only && virtual_world(world) && world.size() > 1) return false;
  return !e.needs_nccl || has_nccl;
}

}  // namespace

std::vector<std::string> default_methods(const World& world, bool has_nccl) {
  std::vector<std::string> names;
  for (const Entry& e : kMethods) {
    if (possible(e, world, has_nccl)) names.push_back(e.name);
  }
  return names;
}

Method make_method(const std::string& name, const Bench& bench) {
  for (const Entry& e : kMethods) {
    if (name != e.name) continue;
    if (!possible(e, bench.world, bench.nccl != nullptr)) {
      throw Error(ErrorCode::not_supported,
                  fmt::format("method {} cannot run on this world", name));
    }
    Method m = e.make(bench);
    m.name = e.name;
    m.baseline = e.baseline;
    m.whole = e.whole;
    return m;
  }
  std::string all;
  for (const Entry& e : kMethods) all += std::string(all.empty() ? "" : ", ") + e.name;
  throw Error(ErrorCode::invalid_argument, fmt::format("method '{}' is not one of {}", name, all));
}

double fused_bytes(const World& world, int64_t tokens, int64_t hidden) {
  const double tensor = static_cast<double>(tokens) * static_cast<double>(hidden) * 2;
  if (virtual_world(world)) {
    // Each row: every replica read once and written once, the residual read and written.
    return tensor * (2.0 * world.size() + 2.0);
  }
  // Into each GPU: the other ranks' partials of its own rows, and the other ranks' rows.
  return 2.0 * tensor * (world.size() - 1) / world.size();
}

}  // namespace ringfence::cuda

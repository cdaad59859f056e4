#include "cuda/host/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cuda/host/check.hpp"
#include "cuda/host/device.hpp"
#include "cuda/host/error.hpp"

namespace ringfence::cuda {
namespace {

void copy_in(const DeviceBuffer& to, const verify::Tensor& from, cudaStream_t stream) {
  if (from.bytes.empty()) return;
  const DeviceScope scope(to.device());
  check(cudaMemcpyAsync(to.get(), from.bytes.data(), from.bytes.size(), cudaMemcpyHostToDevice,
                        stream),
        "copy to the device");
}

/// Columns begin .. begin + columns of the first rows of a [rows, all] tensor, packed.
std::vector<uint16_t> columns_of(const verify::Tensor& from, int64_t rows, int64_t begin,
                                 int64_t columns) {
  std::vector<uint16_t> to(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(from.row(i) + begin, columns, to.data() + i * columns);
  }
  return to;
}

std::vector<uint16_t> fetch(const void* from, size_t elements) {
  std::vector<uint16_t> to(elements);
  if (elements > 0) {
    check(cudaMemcpy(to.data(), from, elements * 2, cudaMemcpyDeviceToHost),
          "copy from the device");
  }
  return to;
}

}  // namespace

DataType data_type(verify::Dtype dtype) {
  return dtype == verify::Dtype::f16 ? DataType::fp16 : DataType::bf16;
}

int64_t push_tokens_of(const RunOptions& o) {
  return o.transport == "auto" && o.trace.empty() ? o.push_tokens : 0;
}

int chosen_blocks(const RunOptions& o, const World& world, int64_t max_tokens) {
  if (o.share_device) return 8;
  return o.protocol == verify::Flavour::pypto ? pypto_default_blocks(world)
                                              : default_blocks(world, max_tokens);
}

World make_world(const RunOptions& o, const std::optional<Place>& place) {
  if (o.virtual_ranks > 0) return World::virtual_ranks(o.virtual_ranks, o.device);
  const int available = static_cast<int>(devices().size());
  if (place) {
    const int device = o.share_device ? 0 : place->local_rank;
    if (device >= available) {
      throw Error(ErrorCode::no_device,
                  fmt::format("rank {} needs device {}, and there {} {}: start fewer ranks, or "
                              "--share-device to test on one",
                              place->rank, device, available == 1 ? "is" : "are", available));
    }
    check(cudaSetDevice(device), "cudaSetDevice");
    return World::process(std::make_unique<Bootstrap>(*place, std::chrono::milliseconds(60000)),
                          device);
  }
  const int ranks = o.ranks > 0 ? o.ranks : available;
  if (ranks > available || available == 0) {
    throw Error(
        ErrorCode::no_device,
        fmt::format("{} ranks need as many GPUs, and there {} {}: use --virtual-ranks {} on "
                    "one",
                    std::max(ranks, 1), available == 1 ? "is" : "are", available,
                    std::max(ranks, 2)));
  }
  std::vector<int> ordinals;
  for (int d = 0; d < ranks; ++d) ordinals.push_back(d);
  return World::one_process(ordinals);
}

Session::Session(const World& world, const RunOptions& options, int64_t max_tokens)
    : world_(world),
      options_(options),
      max_tokens_(max_tokens),
      inner_per_rank_(static_cast<int>(options.inner / world.size())) {
  const verify::Problem p = problem(max_tokens);
  if (p.inner % p.ranks != 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--inner {} does not divide by {} ranks", p.inner, p.ranks));
  }
  const bool pypto = options_.protocol == verify::Flavour::pypto;
  const size_t rows_bytes =
      static_cast<size_t>(max_tokens) * static_cast<size_t>(options_.hidden) * 2;
  const uint64_t timeout_ns = static_cast<uint64_t>(options_.timeout_seconds * 1e9);
  if (pypto) {
    if (options_.dtype != verify::Dtype::bf16) {
      throw Error(ErrorCode::invalid_argument, "pypto adds in bf16: use --dtype bf16");
    }
    PyptoOptions o;
    o.max_tokens = max_tokens;
    o.inner = inner_per_rank_;
    o.hidden = static_cast<int>(options_.hidden);
    o.eps = static_cast<float>(options_.eps);
    o.blocks = options_.blocks;
    o.tile_rows = options_.tile_rows;
    o.chunk = options_.chunk;
    o.slots = options_.slots;
    o.pipelined = options_.pipelined;
    o.owned = options_.owned;
    o.fp32_rows = options_.fp32_rows;
    o.timeout_ns = timeout_ns;
    pypto_ = std::make_unique<Pypto>(world, o);
    out_ = world.allocate(rows_bytes);
  } else {
    TokenweaveOptions o;
    o.dtype = data_type(options_.dtype);
    o.transport = parse_transport(options_.transport);
    o.push_tokens = push_tokens_of(options_);
    o.start = options_.start;
    o.max_tokens = max_tokens;
    o.hidden = static_cast<int>(options_.hidden);
    o.eps = static_cast<float>(options_.eps);
    o.blocks = options_.blocks;
    o.launch = options_.dependent_launch ? Launch::dependent : Launch::cooperative;
    o.stream_a_rank = options_.stream_a_rank;
    o.fp32_rows = options_.fp32_rows;
    o.timeout_ns = timeout_ns;
    tokenweave_ = std::make_unique<Tokenweave>(world, o);
  }
  residual_out_ = world.allocate(rows_bytes);

  const size_t h = static_cast<size_t>(options_.hidden);
  const size_t k = static_cast<size_t>(inner_per_rank_);
  for (size_t i = 0; i < world.members().size(); ++i) {
    const World::Member& m = world.members()[i];
    Tensors t;
    t.x = DeviceBuffer(m.device, static_cast<size_t>(max_tokens) * k * 2);
    t.weight = DeviceBuffer(m.device, h * k * 2);
    t.residual = DeviceBuffer(m.device, rows_bytes);
    t.gamma = DeviceBuffer(m.device, h * (options_.fp32_rows ? 4 : 2));
    t.beta = DeviceBuffer(m.device, h * (options_.fp32_rows ? 4 : 2));
    tensors_.push_back(std::move(t));
    const Tensors& mine = tensors_.back();
    const void* beta = options_.beta ? mine.beta.get() : nullptr;
    if (pypto) {
      pypto_->set_tensors(i, {mine.x.get(), mine.weight.get(), mine.residual.get(), residual_out(i),
                              out_->replica(m.rank), mine.gamma.get(), beta});
    } else {
      tokenweave_->set_tensors(i, {mine.residual.get(), residual_out(i), mine.gamma.get(), beta});
      if (i == 0 || world.kind() != World::Kind::virtual_ranks || options_.stream_a_rank) {
        products_.emplace_back(m.device, data_type(options_.dtype), inner_per_rank_,
                               static_cast<int>(options_.hidden));
      }
    }
  }
}

verify::Problem Session::problem(int64_t tokens) const {
  verify::Problem p;
  p.flavour = options_.protocol;
  p.ranks = world_.size();
  p.tokens = tokens;
  p.inner = options_.inner;
  p.hidden = options_.hidden;
  p.dtype = options_.dtype;
  p.eps = static_cast<float>(options_.eps);
  p.has_beta = options_.beta;
  return p;
}

void* Session::residual_out(size_t member) const {
  return residual_out_->replica(world_.members()[member].rank);
}

cudaStream_t Session::stream_of(size_t member) const {
  const bool one = world_.kind() == World::Kind::virtual_ranks && !options_.stream_a_rank;
  return world_.members()[one ? 0 : member].stream;
}

std::vector<cudaStream_t> Session::streams() const {
  std::vector<cudaStream_t> all;
  for (size_t i = 0; i < world_.members().size(); ++i) {
    if (all.empty() || stream_of(i) != all.back()) all.push_back(stream_of(i));
  }
  return all;
}

void Session::upload(const verify::Inputs& inputs, int64_t tokens) {
  const size_t bytes = static_cast<size_t>(max_tokens_) * static_cast<size_t>(options_.hidden) * 2;
  for (size_t i = 0; i < world_.members().size(); ++i) {
    const World::Member& m = world_.members()[i];
    const DeviceScope scope(m.device);
    const int64_t begin = static_cast<int64_t>(m.rank) * inner_per_rank_;
    const std::vector<uint16_t> x = columns_of(inputs.x, tokens, begin, inner_per_rank_);
    const std::vector<uint16_t> w =
        columns_of(inputs.weight, options_.hidden, begin, inner_per_rank_);
    check(cudaMemcpyAsync(tensors_[i].x.get(), x.data(), x.size() * 2, cudaMemcpyHostToDevice,
                          m.stream),
          "copy of x");
    check(cudaMemcpyAsync(tensors_[i].weight.get(), w.data(), w.size() * 2, cudaMemcpyHostToDevice,
                          m.stream),
          "copy of weight");
    copy_in(tensors_[i].residual, inputs.residual, m.stream);
    copy_in(tensors_[i].gamma, inputs.gamma, m.stream);
    if (inputs.has_beta()) copy_in(tensors_[i].beta, inputs.beta, m.stream);
    check(cudaMemsetAsync(residual_out(i), 0xff, bytes, m.stream), "poison");
    void* out = tokenweave_ ? tokenweave_->buffer(i) : out_->replica(m.rank);
    check(cudaMemsetAsync(out, 0xff, bytes, m.stream), "poison");
    check(cudaStreamSynchronize(m.stream), "upload");
  }
}

void Session::prepare(int64_t tokens) {
  for (Product& p : products_) p.prepare(tokens);
}

void Session::enqueue_product(int64_t tokens) {
  if (products_.empty()) return;
  for (size_t i = 0; i < world_.members().size(); ++i) {
    const DeviceScope scope(world_.members()[i].device);
    const Product& product = products_[products_.size() == 1 ? 0 : i];
    product.enqueue(x(i), weight(i), tokenweave_->buffer(i), tokens, stream_of(i));
  }
}

void Session::enqueue_protocol(int64_t tokens) {
  if (tokenweave_) {
    tokenweave_->enqueue(tokens);
  } else {
    pypto_->enqueue(tokens);
  }
}

std::vector<std::vector<uint16_t>> Session::fetch_partials(int64_t tokens) const {
  std::vector<std::vector<uint16_t>> all;
  if (!tokenweave_) return all;
  const DeviceScope scope(world_.members().front().device);
  for (int r = 0; r < world_.size(); ++r) {
    all.push_back(fetch(tokenweave_->buffers().replica(r),
                        static_cast<size_t>(tokens) * static_cast<size_t>(options_.hidden)));
  }
  return all;
}

void Session::fetch_outputs(CallResult& result) const {
  const DeviceScope scope(world_.members().front().device);
  const size_t elements = static_cast<size_t>(max_tokens_) * static_cast<size_t>(options_.hidden);
  result.out.clear();
  result.residual_out.clear();
  for (int r = 0; r < world_.size(); ++r) {
    const void* out = tokenweave_ ? tokenweave_->buffers().replica(r) : out_->replica(r);
    result.out.push_back(fetch(out, elements));
    result.residual_out.push_back(fetch(residual_out_->replica(r), elements));
  }
}

std::string Session::pads_in_use() const {
  const DeviceScope scope(world_.members().front().device);
  const SymmetricMemory& memory = tokenweave_ ? tokenweave_->pads() : pypto_->pads();
  const size_t words =
      static_cast<size_t>(tokenweave_ ? tokenweave_->pad_words() : pypto_->pad_words());
  std::vector<std::vector<uint32_t>> pads;
  for (int r = 0; r < world_.size(); ++r) {
    std::vector<uint32_t> pad(words);
    check(
        cudaMemcpy(pad.data(), memory.replica(r), words * sizeof(uint32_t), cudaMemcpyDeviceToHost),
        "copy of a pad");
    pads.push_back(std::move(pad));
  }
  return pad_dump(pads, tokenweave_ ? world_.size() : 1);
}

void Session::require_no_timeout() const {
  if (tokenweave_) tokenweave_->require_no_timeout();
  if (pypto_) pypto_->require_no_timeout();
}

void Session::set_call(uint32_t call) {
  if (tokenweave_) tokenweave_->set_call(call);
  if (pypto_) pypto_->set_call(call);
}

}  // namespace ringfence::cuda

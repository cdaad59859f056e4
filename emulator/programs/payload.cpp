#include "emulator/programs/payload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "emulator/programs/protocol.hpp"
#include "emulator/schedule/interrupt.hpp"
#include "verify/product.hpp"

namespace ringfence::programs {

namespace {

// Rows first, first + 1, ... of `from`, modulo its number of rows.
verify::Tensor shifted_rows(const verify::Tensor& from, std::int64_t first, std::int64_t count) {
  const std::int64_t rows = from.shape[0];
  verify::Tensor to(from.dtype, {count, from.shape[1]});
  for (std::int64_t i = 0; i < count; ++i) {
    const auto row = from.row_bytes((first + i) % rows);
    std::copy(row.begin(), row.end(),
              to.bytes.begin() + i * static_cast<std::ptrdiff_t>(row.size()));
  }
  return to;
}

// Whether every order of summation that the run may choose gives the same bits.
bool order_is_fixed(const verify::Problem& p, verify::Summation policy) {
  if (p.ranks == 1) return true;
  if (p.flavour == verify::Flavour::pypto) return false;  // by arrival, rounded at each step
  return policy == verify::Summation::fp32_rank_order || policy == verify::Summation::exact_once;
}

}  // namespace

verify::Fill parse_payload(const std::string& name) {
  if (name == "exact") return verify::Fill::exact_rows;
  if (name == "integers") return verify::Fill::integers;
  if (name == "normal") return verify::Fill::normal;
  throw std::invalid_argument(
      fmt::format("--payload {}: expected exact, integers or normal", name));
}

verify::Flavour flavour_of(const std::string& protocol) { return definition_of(protocol).flavour; }

verify::Problem read_problem(const Config& config, verify::Inputs* inputs) {
  verify::Problem p;
  p.flavour = flavour_of(config.protocol);
  if (config.ranks < 1 || config.ranks > verify::kMaxRanks) {
    throw std::invalid_argument(
        fmt::format("--ranks {}: expected 1 to {}", config.ranks, verify::kMaxRanks));
  }
  p.ranks = static_cast<int>(config.ranks);
  p.tokens = config.tokens;
  p.inner = config.inner;
  p.hidden = config.hidden;
  p.dtype = verify::parse_dtype(config.dtype);
  p.has_beta = p.flavour == verify::Flavour::pypto;
  p.eps = static_cast<float>(config.eps < 0 ? 1e-6 : config.eps);
  if (!config.input.empty()) {
    verify::LoadedInputs loaded =
        verify::load_inputs(config.input, verify::parse_input_names(config.input_map, "--map"));
    verify::adopt(p, loaded, config.eps >= 0);
    if (p.flavour == verify::Flavour::tokenweave && p.has_beta) {
      throw std::invalid_argument(
          fmt::format("{}: tensor 'beta' is there, and tokenweave's norm has none: use pypto, or a "
                      "file without it",
                      config.input));
    }
    if (inputs != nullptr) *inputs = std::move(loaded.inputs);
  }
  if (p.dtype == verify::Dtype::f32 && !definition_of(config.protocol).fp32) {
    throw std::invalid_argument(
        fmt::format("--dtype fp32: {} moves 16-bit types; use bf16 or fp16, or --protocol "
                    "tokenweave or pypto",
                    config.protocol));
  }
  verify::validate(p, {p.flavour == verify::Flavour::tokenweave, false});
  return p;
}

Payload::Payload(const Config& config, const Switches& switches)
    : calls_(config.calls),
      groups_(switches.groups),
      seed_(config.payload_seed),
      fill_(config.input.empty() ? parse_payload(config.payload) : verify::Fill::normal),
      summation_(verify::parse_summation(config.summation)),
      from_file_(!config.input.empty()),
      problem_(read_problem(config, &file_)) {
  problem_.threads = switches.threads;
  problem_.width = switches.width != 0 ? switches.width : verify::vector_elements(problem_.dtype);
  problem_.tile_inner = switches.tile_inner;
  all_.reserve(std::size_t{groups_} * calls_);
  for (std::uint32_t g = 0; g < groups_; ++g) {
    for (std::uint32_t c = 0; c < calls_; ++c) all_.push_back(make_shape(c));
  }
}

void Payload::prepare() const {
  if (prepared_) return;
  for (std::uint32_t g = 0; g < groups_; ++g) {
    for (std::uint32_t c = 0; c < calls_; ++c) fill(all_[g * calls_ + c], g, c);
  }
  prepared_ = true;
}

verify::Problem Payload::problem_of(std::uint32_t call) const {
  verify::Problem p = problem_;
  // tokenweave's rows come in slices of equal size.
  const std::int64_t unit = p.flavour == verify::Flavour::tokenweave ? p.ranks : 1;
  const std::int64_t quarters = 4 - call % 4;
  p.tokens = unit * std::max<std::int64_t>(1, (p.tokens / unit * quarters + 3) / 4);
  return p;
}

verify::Inputs Payload::inputs(std::uint32_t group, std::uint32_t call) const {
  const verify::Problem p = problem_of(call);
  if (!from_file_) {
    // Groups have payloads far from any call's of another.
    return verify::generate(p, fill_, seed_, (std::uint64_t{group} << 32) + call);
  }
  const std::int64_t shift = std::int64_t{group} * calls_ + call;
  verify::Inputs in = file_;
  in.x = shifted_rows(file_.x, shift, p.tokens);
  in.residual = shifted_rows(file_.residual, shift, p.tokens);
  return in;
}

Payload::Call Payload::make_shape(std::uint32_t call) const {
  Call c;
  c.problem = problem_of(call);
  const verify::Problem& p = c.problem;
  c.partials.reserve(static_cast<std::size_t>(p.ranks));
  for (int r = 0; r < p.ranks; ++r) {
    c.partials.emplace_back(p.dtype, verify::Shape{p.tokens, p.hidden});
  }
  return c;
}

void Payload::fill(Call& c, std::uint32_t group, std::uint32_t call) const {
  const verify::Problem& p = c.problem;
  schedule::throw_if_stopped();
  verify::Inputs in = inputs(group, call);
  verify::Partials partials;
  for (int r = 0; r < p.ranks; ++r) {
    schedule::throw_if_stopped();
    const verify::Tensor product = verify::product(p, in, r);
    verify::Tensor& partial = c.partials[static_cast<std::size_t>(r)];  // stays where it is
    std::copy(product.bytes.begin(), product.bytes.end(), partial.bytes.begin());
    partials.push_back(partial.bytes.data());
  }
  schedule::throw_if_stopped();
  c.exact = fill_ != verify::Fill::normal || order_is_fixed(p, summation_);
  if (c.exact) {
    verify::Outputs expected = verify::exact_fused(p, in, partials, summation_);
    c.out = std::move(expected.out);
    c.residual_out = std::move(expected.residual_out);
  } else {
    c.reference = verify::fused_reference(p, in, partials, summation_, {0, p.tokens});
  }
  if (p.flavour == verify::Flavour::pypto) c.x = std::move(in.x);
  c.residual = std::move(in.residual);
  c.gamma = std::move(in.gamma);
  c.beta = std::move(in.beta);
}

}  // namespace ringfence::programs

#include "emulator/programs/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/machine/names.hpp"

namespace ringfence::programs {

using machine::Access;
using machine::Order;
using machine::RegionKind;
using machine::Scope;
using schedule::Agent;
using schedule::Role;

Exchange::Exchange(const Config& config, const Switches& switches)
    : OperatorProgram(config, switches),
      blocks_(config.blocks),
      threads_(std::max<std::uint32_t>(2, config.ranks)) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(payload().problem().tokens) * row_bytes();
  barriers_.resize(ranks());
  for (std::uint16_t r = 0; r < ranks(); ++r) {
    input_.push_back(add_region("input", r, 0, RegionKind::data, bytes));
    residual_.push_back(add_region("residual", r, 0, RegionKind::data, bytes));
    out_.push_back(add_region("out", r, 0, RegionKind::data, bytes));
    for (std::uint32_t b = 0; b < blocks_; ++b) {
      barriers_[r].push_back(std::make_unique<schedule::BlockBarrier>(threads_));
    }
  }
}

// The launch before: this rank's partial product, and the residual.
void Exchange::produce(Agent& agent, const Place& p) {
  const Payload::Call& c = call_of(p);
  for (std::int64_t row = 0; row < c.problem.tokens; ++row) {
    agent.write(row_of(input_, p.rank, row), words(Order::weak, kProductPartial),
                std::as_bytes(std::span(c.partials[p.rank].row(row), hidden())));
    agent.write(row_of(residual_, p.rank, row), words(Order::weak, kProductResidual),
                std::as_bytes(std::span(c.residual.row(row), hidden())));
  }
}

void Exchange::run_protocol(Agent& host, std::uint16_t rank, std::uint32_t call) {
  std::vector<Agent::ChildSpec> children;
  children.reserve(std::size_t{blocks_} * threads_);
  for (std::uint32_t b = 0; b < blocks_; ++b) {
    for (std::uint32_t t = 0; t < threads_; ++t) {
      children.push_back(
          {Role::thread, b, t, 0, [this](Agent& a) {
             const schedule::AgentLabel me = a.label();
             const Place place{0, me.rank, me.call};
             Lane lane{a, *barriers_[me.rank][me.block], call_of(place), place, me.block, me.index};
             kernel(lane);
           }});
    }
  }
  host.launch(stream(rank), static_cast<std::uint16_t>(call), std::move(children));
}

void Exchange::load_row(Lane& lane, machine::Address from, const Access& access,
                        std::span<std::uint16_t> row) const {
  const auto bytes = std::as_writable_bytes(row);
  for (std::size_t i = 0; i < bytes.size(); i += kVectorBytes) {
    const machine::Address at{from.region, from.offset + i};
    const Agent::OneInstruction load(lane.agent, access, machine::AccessKind::read, at,
                                     kVectorBytes);
    lane.agent.read(at, access, bytes.subspan(i, kVectorBytes));
  }
}

void Exchange::store_row(Lane& lane, machine::Address to, const Access& access,
                         std::span<const std::uint16_t> row) const {
  const auto bytes = std::as_bytes(row);
  for (std::size_t i = 0; i < bytes.size(); i += kVectorBytes) {
    const machine::Address at{to.region, to.offset + i};
    const Agent::OneInstruction store(lane.agent, access, machine::AccessKind::write, at,
                                      kVectorBytes);
    lane.agent.write(at, access, bytes.subspan(i, kVectorBytes));
  }
}

std::vector<std::uint16_t> Exchange::compute(Lane& lane, std::int64_t row,
                                             const std::vector<std::uint16_t>& parts) {
  const verify::Problem& p = lane.call.problem;
  const std::uint16_t* pointers[verify::kMaxRanks];
  for (std::uint32_t r = 0; r < ranks(); ++r) pointers[r] = parts.data() + r * hidden();
  std::vector<std::uint16_t> out(hidden()), residual(hidden());
  verify::reduce_vector(payload().summation(), p.dtype, pointers, ranks(), nullptr, hidden(),
                        out.data());
  const machine::Address here = residual_out_row(lane.place, row);
  lane.agent.read(here, words(Order::weak, kLoadResidual),
                  std::as_writable_bytes(std::span(residual)));
  verify::Norm norm;
  norm.dtype = p.dtype;
  norm.hidden = p.hidden;
  norm.eps = p.eps;
  norm.set_gamma(lane.call.gamma);
  verify::tokenweave_row(norm, out.data(), residual.data(), out.data(), residual.data());
  lane.agent.write(here, words(Order::weak, kStoreResidual), std::as_bytes(std::span(residual)));
  return out;
}

std::string Exchange::how(Order order, Scope scope) {
  return order == Order::weak ? std::string("weak")
                              : fmt::format("{}.{}", machine::name(order), machine::name(scope));
}

std::string Exchange::site_name(std::uint16_t site) const {
  switch (site) {
    case kEndCheck:
      return "check after the last launch";
    case kZeroPads:
      return "exchange.cpp: late zeroing of the pads (weak store)";
    case kProductPartial:
      return "exchange.cpp: product: store of the partial sums (weak)";
    case kProductResidual:
      return "exchange.cpp: product: store of the residual (weak)";
    case kLoadResidual:
      return "exchange.cpp: load of the residual (weak)";
    case kStoreResidual:
      return "exchange.cpp: store of residual_out (weak)";
    case kStoreOut:
      return "exchange.cpp: store of out (weak)";
    case kConsume:
      return "exchange.cpp: consumer: load of the results (weak)";
    default:
      return own_site_name(site);
  }
}

}  // namespace ringfence::programs

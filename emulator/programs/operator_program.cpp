#include "emulator/programs/operator_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#include "verify/compare.hpp"

namespace ringfence::programs {

namespace {

constexpr std::uint32_t kMaxHostLabels = 4096;  // a label's calls

using machine::Finding;
using machine::FindingKind;
using machine::RegionKind;
using schedule::Agent;
using schedule::Role;

// The weak accesses of plain kernels to tensors: element by element, whole rows at once.
constexpr machine::Access weak(std::uint8_t element, std::uint16_t site) {
  return {machine::Order::weak, machine::Scope::sys, element, machine::Proxy::generic, false, site};
}

}  // namespace

OperatorProgram::OperatorProgram(const Config& config, const Switches& switches)
    : common_(switches),
      payload_(config, switches),
      ranks_(static_cast<std::uint16_t>(config.ranks)),
      element_bytes_(static_cast<std::uint8_t>(verify::dtype_bytes(payload_.problem().dtype))),
      row_bytes_(static_cast<std::uint64_t>(payload_.problem().hidden) * element_bytes_) {
  if (switches.waves && payload_.calls() * (payload_.groups() + 1) > kMaxHostLabels) {
    throw std::invalid_argument(
        fmt::format("--calls {}: expected at most {} with {} waves", payload_.calls(),
                    kMaxHostLabels / (payload_.groups() + 1), payload_.groups()));
  }
}

std::uint32_t OperatorProgram::add_region(const char* name, std::uint16_t rank, std::uint32_t group,
                                          RegionKind kind, std::uint64_t bytes) {
  regions_.push_back({name, rank, group, {rank, kind, bytes, true}, kind == RegionKind::signal});
  return static_cast<std::uint32_t>(regions_.size() - 1);
}

std::uint32_t OperatorProgram::add_counters(const char* name, std::uint16_t rank,
                                            std::uint64_t bytes) {
  const std::uint32_t i = add_region(name, rank, 0, RegionKind::data, bytes);
  regions_[i].slots = true;
  return i;
}

std::uint64_t OperatorProgram::shared_bytes() const {
  // A region has its bytes, a copy of its initial content, and a pointer for each 16-byte line.
  std::uint64_t bytes = sizeof(Shared);
  for (const RegionInfo& r : regions_) bytes += r.spec.bytes * 5 / 2 * r.weight + 64;
  for (std::uint32_t g = 0; g < payload_.groups(); ++g) {
    for (std::uint32_t c = 0; c < payload_.calls(); ++c) {
      const std::uint64_t copies = ranks_ + (residual_is_sharded() ? 1u : ranks_);
      bytes +=
          copies * static_cast<std::uint64_t>(payload_.shape(g, c).problem.tokens) * row_bytes_;
    }
  }
  return bytes;
}

void OperatorProgram::set_up(machine::Machine& machine, std::pmr::memory_resource* shared) {
  payload_.prepare();
  first_region_ = static_cast<machine::RegionId>(machine.region_count());
  for (const RegionInfo& r : regions_) {
    const machine::RegionId id = machine.add_region(r.spec);
    if (r.slots) continue;
    std::vector<std::uint16_t> row(r.spec.bytes / 2, kNeverWritten);
    machine.set_initial({id, 0}, std::as_bytes(std::span(row)));
  }
  if (common_.pads == Pads::dirty) {
    for (std::uint32_t i = 0; i < regions_.size(); ++i) {
      if (regions_[i].rank != 0 || regions_[i].group != 0) continue;
      if (const auto offset = dirty_slot(i)) {
        const std::uint32_t one = 1;
        machine.set_initial(at(i, *offset), std::as_bytes(std::span(&one, 1)));
      }
    }
  }

  first_result_.clear();
  result_bytes_ = 0;
  for (std::uint32_t g = 0; g < payload_.groups(); ++g) {
    for (std::uint32_t c = 0; c < payload_.calls(); ++c) {
      first_result_.push_back(result_bytes_);
      const std::size_t copies = ranks_ + (residual_is_sharded() ? 1u : ranks_);
      result_bytes_ +=
          copies * static_cast<std::size_t>(payload_.shape(g, c).problem.tokens) * row_bytes_;
    }
  }
  shared_ = ::new (shared->allocate(sizeof(Shared), alignof(Shared))) Shared;
  results_ = static_cast<std::byte*>(shared->allocate(result_bytes_, kResultAlignment));
  std::memset(results_, 0, result_bytes_);
}

void OperatorProgram::before_run(machine::Machine& machine) {
  for (std::uint16_t r = 0; r < ranks_; ++r) {
    shared_->streams[r] = machine.add_stream(r);
    if (common_.waves) shared_->product_streams[r] = machine.add_stream(r);
  }
  mismatch_ = Mismatch{};
}

void OperatorProgram::host(Agent& agent, std::uint16_t rank) {
  const auto groups = payload_.groups();
  for (std::uint32_t c = agent.first_call(); c < payload_.calls(); ++c) {
    const auto call = static_cast<std::uint16_t>(c);
    std::vector<Agent::ChildSpec> children;
    if (common_.waves) {
      run_waves(agent, rank, c);
    } else {
      for (std::uint32_t g = 0; g < groups; ++g) children.push_back(product_of(g));
      add_late_zeroing(children, rank, c);
      agent.launch(stream(rank), call, std::move(children));
      run_protocol(agent, rank, c);
    }
    children.clear();
    for (std::uint32_t g = 0; g < groups; ++g) {
      children.push_back({Role::consumer, g, 0, 0, [this](Agent& a) {
                            const schedule::AgentLabel l = a.label();
                            consume(a, {l.block, l.rank, l.call});
                          }});
    }
    agent.launch(stream(rank), call, std::move(children));
  }
}

Agent::ChildSpec OperatorProgram::product_of(std::uint32_t group) {
  return {Role::product, group, 0, 0, [this](Agent& a) {
            const schedule::AgentLabel l = a.label();
            produce(a, {l.block, l.rank, l.call});
          }};
}

void OperatorProgram::add_late_zeroing(std::vector<Agent::ChildSpec>& children, std::uint16_t rank,
                                       std::uint32_t call) {
  if (common_.pads != Pads::late || call != 0 || rank + 1 != ranks_) return;
  children.push_back({Role::product, payload_.groups(), 0, 0,
                      [this](Agent& a) { zero_late(a, a.label().rank, zero_site()); }});
}

void OperatorProgram::run_wave(Agent&, std::uint16_t, std::uint32_t, std::uint32_t) {
  throw std::logic_error("this protocol has no waves");
}

// In step s the product of wave s runs beside the protocol of wave s - 1. The steps end together:
// for waves of equal size that takes as long as if neither stream waited for the other.
void OperatorProgram::run_waves(Agent& agent, std::uint16_t rank, std::uint32_t c) {
  const auto call = static_cast<std::uint16_t>(c);
  const std::uint32_t waves = payload_.groups();
  // The consumers of the call before have read what the products write.
  agent.order_streams(product_stream(rank), stream(rank));
  for (std::uint32_t step = 0; step <= waves; ++step) {
    std::vector<Agent::Body> bodies;
    if (step < waves) {
      bodies.emplace_back([this, rank, call, step](Agent& host) {
        std::vector<Agent::ChildSpec> one;
        one.push_back(product_of(step));
        if (step == 0) add_late_zeroing(one, rank, call);
        host.launch(product_stream(rank), call, std::move(one));
      });
    }
    if (step > 0) {
      agent.order_streams(stream(rank), product_stream(rank));
      bodies.emplace_back(
          [this, rank, c, step](Agent& host) { run_wave(host, rank, c, step - 1); });
    }
    // A label of its own for each: decisions name agents by it.
    agent.fork_hosts(static_cast<std::uint16_t>(c * (waves + 1) + step), std::move(bodies));
  }
}

void OperatorProgram::zero_late(Agent& agent, std::uint16_t rank, std::uint16_t site) {
  const machine::Access access = weak(4, site);
  for (std::uint32_t i = 0; i < regions_.size(); ++i) {
    const RegionInfo& r = regions_[i];
    if (r.rank != rank || !r.slots) continue;
    const std::uint32_t zero = 0;
    for (std::uint64_t o = 0; o < r.spec.bytes; o += 4) {
      agent.write(at(i, o), access, std::as_bytes(std::span(&zero, 1)));
    }
  }
}

// -- results --------------------------------------------------------------------------------------

std::size_t OperatorProgram::out_at(std::uint32_t group, std::uint32_t call,
                                    std::uint32_t rank) const {
  const auto tokens = static_cast<std::size_t>(payload_.shape(group, call).problem.tokens);
  return first_result_[group * payload_.calls() + call] + rank * tokens * row_bytes_;
}

std::size_t OperatorProgram::residual_at(std::uint32_t group, std::uint32_t call,
                                         std::uint32_t rank) const {
  return out_at(group, call, ranks_ + (residual_is_sharded() ? 0 : rank));
}

const std::byte* OperatorProgram::out(std::uint32_t group, std::uint32_t call,
                                      std::uint32_t rank) const {
  return results_ + out_at(group, call, rank);
}

const std::byte* OperatorProgram::residual_out(std::uint32_t group, std::uint32_t call,
                                               std::uint32_t rank) const {
  return results_ + residual_at(group, call, rank);
}

void OperatorProgram::consume(Agent& agent, const Place& p) {
  const verify::Problem& problem = call_of(p).problem;
  const machine::Access access = weak(element_bytes_, consume_site());
  std::byte* const out = results_ + out_at(p.group, p.call, p.rank);
  for (std::int64_t row = 0; row < problem.tokens; ++row) {
    agent.read(out_row(p, row), access,
               {out + static_cast<std::size_t>(row) * row_bytes_, row_bytes_});
  }
  std::byte* const residual = results_ + residual_at(p.group, p.call, p.rank);
  const verify::RowRange rows = problem.rows_of(p.rank);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    agent.read(residual_out_row(p, row), access,
               {residual + static_cast<std::size_t>(row) * row_bytes_, row_bytes_});
  }
}

void OperatorProgram::after_run(machine::Machine& machine) {
  if (!any_lost() && !check_slots(machine)) return;
  if (!check_results(machine)) return;
  check_replicas(machine);
}

bool OperatorProgram::check_results(machine::Machine& machine) {
  for (std::uint32_t c = 0; c < payload_.calls(); ++c) {
    for (std::uint32_t g = 0; g < payload_.groups(); ++g) {
      for (std::uint16_t r = 0; r < ranks_; ++r) {
        if (lost(r)) continue;
        // An error in residual_out is nearer to its cause.
        if (!check_values(machine, {g, r, c}, true)) return false;
        if (!check_values(machine, {g, r, c}, false)) return false;
      }
    }
  }
  return true;
}

// What the consumer's load of an element of a result is in a finding.
machine::AccessInfo OperatorProgram::consumed(const Place& p, bool is_residual,
                                              std::size_t element) const {
  const auto hidden = static_cast<std::size_t>(call_of(p).problem.hidden);
  const auto row = static_cast<std::int64_t>(element / hidden);
  const machine::Address at = is_residual ? residual_out_row(p, row) : out_row(p, row);
  schedule::AgentLabel label;
  label.role = Role::consumer;
  label.rank = p.rank;
  label.call = static_cast<std::uint16_t>(p.call);
  label.block = p.group;
  machine::AccessInfo a;
  a.label = schedule::pack(label);
  a.site = consume_site();
  a.region = at.region;
  a.offset = at.offset + element % hidden * element_bytes_;
  a.bytes = element_bytes_;
  return a;
}

bool OperatorProgram::check_values(machine::Machine& machine, const Place& p, bool is_residual) {
  const Payload::Call& c = call_of(p);
  const std::int64_t hidden = c.problem.hidden;
  const verify::RowRange rows =
      is_residual ? c.problem.rows_of(p.rank) : verify::RowRange{0, c.problem.tokens};
  const auto first = static_cast<std::size_t>(rows.begin * hidden);
  const auto count = static_cast<std::size_t>(rows.count() * hidden);
  if (count == 0) return true;
  const std::byte* const got =
      (is_residual ? residual_out(p.group, p.call, p.rank) : out(p.group, p.call, p.rank)) +
      first * element_bytes_;
  verify::Comparison result;
  if (c.exact) {
    const std::byte* const expected =
        (is_residual ? c.residual_out : c.out).bytes.data() + first * element_bytes_;
    if (std::memcmp(got, expected, count * element_bytes_) == 0) return true;
    result = verify::compare_bits("", c.problem.dtype, {c.problem.tokens, hidden}, got, expected,
                                  count, first);
  } else {
    const verify::FusedReference& r = c.reference;
    result = verify::compare("", c.problem.dtype, {c.problem.tokens, hidden}, got,
                             (is_residual ? r.residual_out : r.out).data() + first,
                             (is_residual ? r.residual_out_bound : r.out_bound).data() + first,
                             count, first);
  }
  if (!result.has_mismatch) return true;
  Mismatch& m = mismatch_;
  m.what = What::wrong_value;
  m.is_residual = is_residual;
  m.place = p;
  m.element = result.first.index;
  m.expected = result.first.expected;
  m.bound = result.first.bound;
  m.got = result.first.actual;
  m.expected_bits = static_cast<std::uint32_t>(result.first.expected_bits);
  m.got_bits = static_cast<std::uint32_t>(result.first.actual_bits);
  Finding f;
  f.kind = FindingKind::numeric_mismatch;
  f.second = consumed(p, is_residual, m.element);
  f.has_second = true;
  machine.report(f);
  return !machine.failed();  // not if the kind is ignored
}

bool OperatorProgram::check_replicas(machine::Machine& machine) {
  std::uint16_t base = 0;  // a rank is always left
  while (lost(base)) ++base;
  const auto differ = [&](const Place& p, bool is_residual) {
    const Payload::Call& call = call_of(p);
    const auto count = static_cast<std::size_t>(call.problem.tokens * call.problem.hidden);
    const std::byte* const a =
        is_residual ? residual_out(p.group, p.call, base) : out(p.group, p.call, base);
    const std::byte* const b =
        is_residual ? residual_out(p.group, p.call, p.rank) : out(p.group, p.call, p.rank);
    if (a == b || std::memcmp(a, b, count * element_bytes_) == 0) return false;
    const std::size_t i =
        static_cast<std::size_t>(std::mismatch(a, a + count * element_bytes_, b).first - a) /
        element_bytes_;
    const verify::Dtype dtype = call.problem.dtype;
    const auto bits = [&](const std::byte* of) {
      return static_cast<std::uint32_t>(verify::load_pattern(dtype, of + i * element_bytes_));
    };
    Mismatch& m = mismatch_;
    m.what = What::replicas_differ;
    m.is_residual = is_residual;
    m.place = p;
    m.base = base;
    m.element = i;
    m.expected_bits = bits(a);
    m.got_bits = bits(b);
    m.expected = verify::decode(dtype, m.expected_bits);
    m.got = verify::decode(dtype, m.got_bits);
    Finding f;
    f.kind = FindingKind::replica_mismatch;
    f.first = consumed({p.group, base, p.call}, is_residual, i);
    f.second = consumed(p, is_residual, i);
    f.has_first = f.has_second = true;
    machine.report(f);
    return machine.failed();
  };
  for (std::uint32_t c = 0; c < payload_.calls(); ++c) {
    for (std::uint32_t g = 0; g < payload_.groups(); ++g) {
      if (!replicas_agree(payload_.call(g, c))) continue;
      for (std::uint32_t other = base + 1u; other < ranks_; ++other) {
        const auto r = static_cast<std::uint16_t>(other);
        if (lost(r)) continue;
        if (differ({g, r, c}, true) || differ({g, r, c}, false)) return false;
      }
    }
  }
  return true;
}

bool OperatorProgram::check_slots(machine::Machine& machine) {
  for (std::uint32_t i = 0; i < regions_.size(); ++i) {
    const RegionInfo& r = regions_[i];
    if (!r.slots) continue;
    slots_.resize(r.spec.bytes / 4);
    machine.peek(at(i, 0), std::as_writable_bytes(std::span(slots_)));
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      const std::uint32_t due = slot_at_end(r, s * 4);
      if (slots_[s] == due) continue;
      mismatch_.what = What::wrong_slot;
      mismatch_.due = due;
      mismatch_.slot = at(i, s * 4);
      mismatch_.got = slots_[s];
      Finding f;
      f.kind = FindingKind::unrestored_signal;
      schedule::AgentLabel owner;
      owner.rank = r.rank;
      f.second.label = schedule::pack(owner);
      f.second.region = mismatch_.slot.region;
      f.second.offset = mismatch_.slot.offset;
      f.second.bytes = 4;
      f.has_second = true;
      machine.report(f);
      if (machine.failed()) return false;
    }
  }
  return true;
}

// -- names ----------------------------------------------------------------------------------------

std::string OperatorProgram::group_text(std::uint32_t group) const {
  return payload_.groups() > 1 ? fmt::format(", group {}", group) : "";
}

std::string OperatorProgram::region_name(machine::RegionId region) const {
  const RegionInfo& r = info(region);
  return fmt::format("{} of rank {}{}", r.name, r.rank, group_text(r.group));
}

schedule::SlotName OperatorProgram::slot_name(machine::Address at) const {
  const RegionInfo& r = info(at.region);
  return r.slots ? slot_of(r, at.offset) : schedule::SlotName{};
}

std::string OperatorProgram::last_mismatch() const {
  const Mismatch& m = mismatch_;
  const int digits = 2 * element_bytes_;
  const auto where = [&] {
    const auto hidden = static_cast<std::size_t>(call_of(m.place).problem.hidden);
    return fmt::format("{}, call {}, rank {}{}: row {}, column {}",
                       m.is_residual ? "residual_out" : "out", m.place.call, m.place.rank,
                       group_text(m.place.group), m.element / hidden, m.element % hidden);
  };
  switch (m.what) {
    case What::nothing:
      return {};
    case What::wrong_value: {
      const std::string bound = m.bound > 0 ? fmt::format(" within {:.3g}", m.bound) : "";
      return fmt::format("{}: got {} (0x{:0{}x}), expected {} (0x{:0{}x}){}", where(), m.got,
                         m.got_bits, digits, m.expected, m.expected_bits, digits, bound);
    }
    case What::replicas_differ:
      return fmt::format("{}: {} (0x{:0{}x}), but rank {} has {} (0x{:0{}x})", where(), m.got,
                         m.got_bits, digits, m.base, m.expected, m.expected_bits, digits);
    case What::wrong_slot:
      return fmt::format("{} holds {} after the last launch: expected {}", slot_name(m.slot).text,
                         m.got, m.due);
  }
  return {};
}

}  // namespace ringfence::programs

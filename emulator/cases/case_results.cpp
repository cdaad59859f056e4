// What a case says of a run that has ended: the checks of [check], in their order.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <tuple>

#include "emulator/cases/case_program.hpp"

namespace ringfence::cases {

using schedule::Role;

std::span<const std::byte> CaseProgram::consumed(std::uint32_t call, std::uint32_t rank,
                                                 std::string_view memory) const {
  const std::size_t m = index_of(memory);
  return {results_ + consumed_offset(call, rank, m), file_.memories[m].bytes};
}

machine::AccessInfo CaseProgram::consumer_access(std::uint32_t call, std::uint32_t rank,
                                                 std::size_t memory, std::uint64_t offset) const {
  schedule::AgentLabel label;
  label.role = Role::consumer;
  label.rank = static_cast<std::uint16_t>(rank);
  label.call = static_cast<std::uint16_t>(call);
  machine::AccessInfo a;
  a.label = schedule::pack(label);
  a.site = kConsumer;
  a.region = first_region_ + memory_region_[memory][rank];
  a.offset = offset;
  a.bytes = 1;
  return a;
}

verify::Comparison CaseProgram::compare(std::uint32_t call, std::uint32_t rank,
                                        bool is_residual) const {
  const Expected& e = *payload_.expected(call);
  const Reference& f = *file_.check.reference;
  const verify::Problem& p = e.problem;
  const std::span<const std::byte> bytes =
      consumed(call, rank, is_residual ? f.residual_out : f.out);
  const std::size_t element = verify::dtype_bytes(p.dtype);
  const std::byte* got = bytes.data();
  const auto hidden = static_cast<std::size_t>(p.hidden);
  const bool whole = bytes.size() >= f.tokens * hidden * element;
  const verify::RowRange rows =
      is_residual ? p.rows_of(static_cast<int>(rank)) : verify::RowRange{0, p.tokens};
  const std::size_t first = static_cast<std::size_t>(rows.begin) * hidden;
  const std::size_t count = static_cast<std::size_t>(rows.count()) * hidden;
  if (whole) got += first * element;
  const verify::Shape shape{p.tokens, p.hidden};
  const char* name = is_residual ? "residual_out" : "out";
  if (e.exact) {
    return verify::compare_bits(
        name, p.dtype, shape, got,
        (is_residual ? e.residual_out : e.out).bytes.data() + first * element, count, first);
  }
  const verify::FusedReference& r = e.reference;
  return verify::compare(
      name, p.dtype, shape, got, (is_residual ? r.residual_out : r.out).data() + first,
      (is_residual ? r.residual_out_bound : r.out_bound).data() + first, count, first);
}

const std::byte* CaseProgram::consumed_value(std::size_t expected, std::uint32_t call,
                                             std::uint32_t rank) const {
  const ExpectedValue& e = file_.check.expected[expected];
  return consumed(call, rank, e.memory).data() + e.offset;
}

void CaseProgram::compare_expected(std::uint32_t call, std::vector<verify::Comparison>& all) const {
  for (std::size_t i = 0; i < file_.check.expected.size(); ++i) {
    std::optional<verify::Comparison> whole;
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      const verify::Expectation* const e = expectations_.of(i, call, r);
      if (e == nullptr) continue;
      verify::Comparison one =
          verify::compare(file_.check.expected[i].memory, *e, consumed_value(i, call, r));
      one.set_rank(static_cast<int>(r));
      if (whole) {
        whole->merge(one);
      } else {
        whole = std::move(one);
      }
    }
    if (!whole) continue;
    if (calls_ > 1) whole->name += fmt::format(", call {}", call);
    all.push_back(std::move(*whole));
  }
}

std::vector<verify::Comparison> CaseProgram::comparisons() const {
  std::vector<verify::Comparison> all;
  for (std::uint32_t call = 0; call < calls_; ++call) {
    compare_expected(call, all);
    if (!file_.check.reference) continue;
    for (const bool is_residual : {false, true}) {
      verify::Comparison whole;
      bool any = false;
      for (std::uint32_t r = 0; r < file_.ranks; ++r) {
        if (is_residual &&
            payload_.expected(call)->problem.rows_of(static_cast<int>(r)).count() == 0) {
          continue;
        }
        verify::Comparison one = compare(call, r, is_residual);
        one.set_rank(static_cast<int>(r));
        if (any) {
          whole.merge(one);
        } else {
          whole = one;
        }
        any = true;
      }
      if (calls_ > 1) whole.name += fmt::format(", call {}", call);
      all.push_back(whole);
    }
  }
  return all;
}

// A fault leaves one rank at least.
std::uint32_t CaseProgram::first_left() const {
  std::uint32_t rank = 0;
  while (lost(rank)) ++rank;
  return rank;
}

void CaseProgram::each_difference(const std::function<bool(const Difference&)>& go_on) const {
  for (std::uint32_t call = 0; call < calls_; ++call) {
    for (const std::string& name : file_.check.equal) {
      const std::uint32_t base = first_left();
      const auto first = consumed(call, base, name);
      for (std::uint32_t r = base + 1; r < file_.ranks; ++r) {
        if (lost(r)) continue;
        const auto other = consumed(call, r, name);
        const auto at = std::mismatch(first.begin(), first.end(), other.begin()).first;
        if (at == first.end()) continue;
        const auto byte = static_cast<std::size_t>(at - first.begin());
        if (!go_on({call, name, base, r, byte, first[byte], other[byte]})) return;
      }
    }
  }
}

std::string CaseProgram::replica_difference() const {
  std::string text;
  each_difference([&](const Difference& d) {
    text =
        fmt::format("after call {}, byte {} of '{}' is 0x{:02x} on rank {} and 0x{:02x} on rank {}",
                    d.call, d.byte, d.memory, static_cast<unsigned>(d.value), d.rank,
                    static_cast<unsigned>(d.other_value), d.other);
    return false;
  });
  return text;
}

bool CaseProgram::is_judged(const std::string& memory) const {
  const Check& c = file_.check;
  const auto expects = [&](const ExpectedValue& e) { return e.memory == memory; };
  return std::any_of(c.expected.begin(), c.expected.end(), expects) ||
         std::find(c.restored.begin(), c.restored.end(), memory) != c.restored.end() ||
         (c.reference && (memory == c.reference->out || memory == c.reference->residual_out));
}

std::vector<std::string> CaseProgram::values_not_judged() const {
  std::vector<std::string> out;
  if (complete_runs_ == 0) return out;
  const auto& equal = file_.check.equal;
  for (std::size_t m = 0; m < file_.memories.size(); ++m) {
    const std::string& name = file_.memories[m].name;
    const auto written = [&](std::uint32_t region) { return usage_.written(region); };
    const auto& regions = memory_region_[m];
    if (is_judged(name) || !std::any_of(regions.begin(), regions.end(), written)) continue;
    const bool compared = std::find(equal.begin(), equal.end(), name) != equal.end();
    out.push_back(compared ? name + " (its replicas are compared with one another alone)" : name);
  }
  return out;
}

std::pair<std::uint64_t, std::uint64_t> CaseProgram::read_by_consumer(std::size_t memory,
                                                                      std::uint32_t call,
                                                                      std::uint32_t rank) const {
  const Memory& m = file_.memories[memory];
  const Check& c = file_.check;
  const bool whole =
      std::find(c.equal.begin(), c.equal.end(), m.name) != c.equal.end() ||
      (c.reference && (m.name == c.reference->out || m.name == c.reference->residual_out));
  if (whole) return {0, m.bytes};
  for (std::size_t i = 0; i < c.expected.size(); ++i) {
    const verify::Expectation* const e = expectations_.of(i, call, rank);
    if (c.expected[i].memory != m.name || e == nullptr) continue;
    return {c.expected[i].offset, c.expected[i].offset + e->nominal.size()};
  }
  return {0, 0};
}

std::vector<std::string> CaseProgram::never_written() const {
  std::vector<std::string> out;
  if (complete_runs_ == 0) return out;
  constexpr std::size_t kMostTexts = 16;
  for (std::size_t m = 0; m < file_.memories.size(); ++m) {
    if (!file_.memories[m].initial.unset.empty()) continue;  // such a read is a finding
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      std::uint64_t begin = 0, end = 0;
      for (std::uint32_t call = 0; call < calls_ && end == 0; ++call) {
        std::tie(begin, end) = read_by_consumer(m, call, r);
      }
      for (const Usage::Gap& gap : usage_.never_written(memory_region_[m][r], begin, end)) {
        if (out.size() == kMostTexts) {
          out.back() = "and more";
          return out;
        }
        out.push_back(fmt::format("{} of {} of rank {} ({})",
                                  gap.first == gap.last
                                      ? fmt::format("byte {}", gap.first)
                                      : fmt::format("bytes {} to {}", gap.first, gap.last),
                                  file_.memories[m].name, r,
                                  gap.by_peer ? "a peer reads them" : "the consumer reads them"));
      }
    }
  }
  return out;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> CaseProgram::not_written(
    std::string_view memory, std::uint32_t rank) const {
  const std::size_t m = index_of(memory);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
  for (const Usage::Gap& gap :
       usage_.never_written(memory_region_[m][rank], 0, file_.memories[m].bytes)) {
    if (!out.empty() && out.back().second == gap.first) {
      out.back().second = gap.last + 1;
    } else {
      out.emplace_back(gap.first, gap.last + 1);
    }
  }
  return out;
}

std::vector<std::string> CaseProgram::remarks() const {
  std::vector<std::string> out;
  for (std::uint32_t r = 0; shared_ != nullptr && r < file_.ranks; ++r) {
    for (const Remark& m : shared_->fault[r].remarks) {
      const std::string a = site_name(m.a), b = site_name(m.b);
      std::string text;
      switch (m.kind) {
        case Remark::Kind::none:
          continue;
        case Remark::Kind::two_barriers:
          text = fmt::format(
              "threads of a block meet at its barrier from two instructions, {} and {}: undefined "
              "by the letter of the manual; --policy syncthreads=cuda makes it a finding",
              a, b);
          break;
        case Remark::Kind::exited:
          text = fmt::format(
              "threads of a block meet at its barrier, {}, while others have exited, {}; --policy "
              "syncthreads=cuda makes it a finding",
              a, b);
          break;
        case Remark::Kind::fence_only:
          text = fmt::format(
              "{} accesses what the preceding launch wrote, ordered only by a release fence before "
              "that launch's griddepcontrol.launch_dependents: the manual requires "
              "griddepcontrol.wait",
              a);
          break;
        case Remark::Kind::read_unfenced:
          text = fmt::format(
              "{} writes through the async proxy what {} read through the generic one, without a "
              "fence.proxy.async in between: the letter of PTX (8.6) requires one, shipped "
              "pipelines have none; --policy async-war=fence-required makes it a finding",
              b, a);
          break;
        case Remark::Kind::exits_under_store:
          text = fmt::format(
              "the thread that issues {} exits without waiting for what it reads: the manual does "
              "not say whether the block's shared memory exists until then; "
              "cp.async.bulk.wait_group.read before the exit makes sure",
              a);
          break;
        case Remark::Kind::same_value:
          text = fmt::format(
              "threads of a block store the same value to a word of its shared memory, at {}, and "
              "nothing orders the stores: a race by the letter of PTX (8.7.1); same_value = "
              "\"race\" in the case makes it a finding",
              a);
          break;
        case Remark::Kind::time_out:
          text = fmt::format(
              "the time-out of the wait at {} is not explored: it can only end in a trap or a "
              "failed assertion; --policy timeout=taken explores it",
              a);
          break;
      }
      if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(text);
    }
  }
  return out;
}

// What the memory model has no rule for here, by the instructions that need one.
std::vector<std::string> CaseProgram::left_out() const {
  std::vector<std::string> out;
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    const ptx::Program& program = kernels_[k]->program;
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      if (program.ops[i].kind == ptx::Kind::active_mask) {
        out.push_back(
            fmt::format("{}: lanes that this activemask could find together or apart in "
                        "other orders of a warp's parts",
                        site_name(kernels_[k]->site[i])));
      }
      if (program.ops[i].kind != ptx::Kind::fence) continue;
      const ptx::Fence& fence = program.fences[program.ops[i].detail];
      const char* const what = fence.proxy == ptx::Proxy::tensormap
                                   ? "accesses through the tensormap proxy, which this fence orders"
                               : fence.one_way
                                   ? "this one-way fence is treated as a fence in both directions"
                                   : nullptr;
      if (what == nullptr) continue;
      out.push_back(fmt::format("{}: {}", site_name(kernels_[k]->site[i]), what));
    }
  }
  return out;
}

// Which blocks have room first: it decides where one of them waits for anything.
std::vector<std::string> CaseProgram::unexplored() const {
  std::vector<std::string> out;
  for (std::uint32_t r = 0; shared_ != nullptr && r < file_.ranks; ++r) {
    for (const std::uint16_t site : shared_->fault[r].spins) {
      if (site == 0) continue;
      std::string text = fmt::format(
          "the end of the loop at {}, which used up the budget of {} warp instructions while "
          "others could still act",
          site_name(site), file_.budget);
      if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));
    }
    const std::uint32_t launch = shared_->fault[r].waits_in_turn;
    if (launch == 0) continue;
    out.push_back(fmt::format(
        "which blocks of {} are resident first: they do not all fit at once, and some wait",
        file_.launches[launch - 1].kernel_of(r)));
    break;
  }
  return out;
}

std::vector<std::string> CaseProgram::time_outs() const {
  std::vector<std::string> out;
  for (std::uint32_t r = 0; shared_ != nullptr && r < file_.ranks; ++r) {
    for (const std::uint16_t site : shared_->fault[r].time_outs) {
      if (site == 0) continue;
      std::string text = fmt::format(
          "the time-out of the wait at {}, after which the kernel continues: its loop reads "
          "several places, or lanes leave it together",
          site_name(site));
      if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));
    }
  }
  return out;
}

void CaseProgram::after_run(machine::Machine& machine) {
  if (!any_lost()) ++complete_runs_;
  if (!any_lost() && !check_restored(machine)) return;
  if (!check_expected(machine) || !check_reference(machine)) return;
  check_equal(machine);
}

verify::Safetensors CaseProgram::final_memories() const {
  verify::Safetensors out;
  for (std::size_t m = 0; m < file_.memories.size(); ++m) {
    const Memory& memory = file_.memories[m];
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      verify::Tensor t;
      t.dtype = payload_.renewed(m) ? payload_.dtype(m) : verify::Dtype::u8;
      for (std::size_t i = 0; i < file_.check.expected.size(); ++i) {
        const verify::Expectation* const e = expectations_.of(i, calls_ - 1, r);
        if (file_.check.expected[i].memory != memory.name || e == nullptr) continue;
        t.dtype = e->dtype;
        if (e->nominal.size() == memory.bytes) t.shape = e->shape;
      }
      if (memory.bytes % verify::dtype_bytes(t.dtype) != 0) t.dtype = verify::Dtype::u8;
      if (t.shape.empty()) {
        t.shape = {static_cast<std::int64_t>(memory.bytes / verify::dtype_bytes(t.dtype))};
      }
      t.bytes.resize(memory.bytes);
      if (machine_ != nullptr) machine_->peek({first_region_ + memory_region_[m][r], 0}, t.bytes);
      out.add(fmt::format("{}.{}", memory.name, r), std::move(t));
    }
  }
  return out;
}

std::string CaseProgram::numerics() const {
  for (const auto& kernel : kernels_) {
    if (!kernel->program.group_products.empty()) {
      return "wgmma: exact products, added in fp32 in the order of k";
    }
  }
  return {};
}

void CaseProgram::initial_of(const Region& region, std::uint64_t offset, std::span<std::byte> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  for (const Piece& p : region.initial) {
    const std::uint64_t begin = std::max(offset, p.offset);
    const std::uint64_t end = std::min(offset + out.size(), p.offset + p.bytes.size());
    if (begin >= end) continue;
    std::copy_n(p.bytes.begin() + static_cast<std::ptrdiff_t>(begin - p.offset), end - begin,
                out.begin() + static_cast<std::ptrdiff_t>(begin - offset));
  }
}

bool CaseProgram::check_restored(machine::Machine& machine) {
  for (const std::string& name : file_.check.restored) {
    const std::size_t m = index_of(name);
    const std::uint64_t bytes = file_.memories[m].bytes;
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      const Region& region = regions_[memory_region_[m][r]];
      const machine::RegionId id = first_region_ + memory_region_[m][r];
      // Of a large one, what was touched.
      std::vector<machine::Machine::Span> spans{{0, bytes}};
      if (region.spec.sparse) spans = machine.touched(id);
      std::vector<std::byte> now, was;
      for (const machine::Machine::Span& span : spans) {
        const std::uint64_t count = std::min(span.bytes, bytes - span.offset);
        now.resize(count);
        was.resize(count);
        machine.peek({id, span.offset}, now);
        initial_of(region, span.offset, was);
        const auto differs = std::mismatch(now.begin(), now.end(), was.begin()).first;
        if (differs == now.end()) continue;
        const auto at = static_cast<std::size_t>(differs - now.begin());
        mismatch_ = fmt::format("byte {} of {} is 0x{:02x} after the last launch, and was 0x{:02x}",
                                span.offset + at, region.name, static_cast<unsigned>(now[at]),
                                static_cast<unsigned>(was[at]));
        machine::Finding f;
        f.kind = machine::FindingKind::unrestored_signal;
        schedule::AgentLabel owner;
        owner.rank = static_cast<std::uint16_t>(r);
        f.second.label = schedule::pack(owner);
        f.second.region = id;
        f.second.offset = span.offset + at;
        f.second.bytes = 1;
        f.has_second = true;
        machine.report(f);
        if (machine.failed()) return false;
        break;
      }
    }
  }
  return true;
}

// Of a plain sum over the ranks: whose term explains every wrong element, missing or added twice.
std::string CaseProgram::term_text(const ExpectedValue& value, const verify::Expectation& expected,
                                   const std::byte* got, std::uint32_t call) const {
  const std::string& text = value.value;
  if (!text.starts_with("sum(") || !text.ends_with(')')) return "";
  std::string name = text.substr(4, text.size() - 5);
  if (name.size() > 2 && name.front() == name.back() && (name[0] == '\'' || name[0] == '"')) {
    name = name.substr(1, name.size() - 2);
  }
  const Memory* const memory = file_.find(name);
  if (memory == nullptr) return "";
  const std::size_t m = index_of(memory->name);
  const verify::Dtype dtype = payload_.dtype(m);
  const std::uint64_t size = verify::dtype_bytes(dtype);
  const std::uint64_t of_got = verify::dtype_bytes(expected.dtype);
  if (payload_.filled(m) / size < expected.elements()) return "";
  std::vector<verify::Values> terms;
  for (std::uint32_t r = 0; r < file_.ranks; ++r) {
    terms.push_back(
        verify::values_of(dtype, payload_.content(call, r, m).data(), expected.elements()));
  }
  const auto term = [&](std::uint32_t r, std::size_t i) {
    return terms[r].integer ? verify::decode(dtype, terms[r].bits[i]) : terms[r].value[i];
  };
  // By rank: missing, twice, alone.
  std::vector<std::array<bool, 3>> fits(file_.ranks, {true, true, true});
  std::vector<std::array<std::uint64_t, 3>> telling(file_.ranks, {0, 0, 0});
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < expected.elements(); ++i) {
    std::uint64_t pattern = 0;
    std::memcpy(&pattern, got + i * of_got, of_got);
    if (expected.right(i, pattern)) continue;
    ++wrong;
    const double there = verify::decode(expected.dtype, pattern);
    const double due = expected.value(i);
    const double near = expected.bound(i, there) + std::abs(due) * 1e-2;
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      const double own = term(r, i);
      // A term within what is near says nothing, though what is there has to fit it, too; of a
      // value alone it is what would be there besides that tells.
      const double others[3] = {due - own, due + own, own};
      for (std::size_t what = 0; what < 3; ++what) {
        fits[r][what] = fits[r][what] && std::abs(there - others[what]) <= near;
        if (std::abs(due - others[what]) > 2 * near) ++telling[r][what];
      }
    }
  }
  static constexpr const char* kWords[3] = {
      "'s term is missing", "'s term is added twice",
      "'s own value is there, and the other terms are missing"};
  std::string out;
  for (const std::size_t what : {2, 0, 1}) {
    if (file_.ranks == 2 && what == 0) continue;  // the other one's alone, which is told
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      if (!fits[r][what] || 2 * telling[r][what] < wrong) continue;
      if (!out.empty()) return "";  // more than one would explain it
      out = fmt::format("; in every wrong element rank {}{}", r, kWords[what]);
    }
  }
  return out;
}

bool CaseProgram::check_expected(machine::Machine& machine) {
  for (std::uint32_t call = 0; call < calls_; ++call) {
    for (std::size_t i = 0; i < file_.check.expected.size(); ++i) {
      const ExpectedValue& value = file_.check.expected[i];
      for (std::uint32_t r = 0; r < file_.ranks; ++r) {
        const verify::Expectation* const e = expectations_.of(i, call, r);
        if (e == nullptr || lost(r)) continue;
        const std::byte* const got = consumed_value(i, call, r);
        const std::size_t wrong = verify::first_wrong(*e, got);
        if (wrong == e->elements()) continue;
        verify::Comparison c = verify::compare(value.memory, *e, got);
        c.set_rank(static_cast<int>(r));
        mismatch_ = fmt::format("{}, call {}: {} of {} elements mismatch, {}{}", value.memory, call,
                                c.mismatches, c.elements, verify::mismatch_text(c),
                                term_text(value, *e, got, call));
        const std::uint64_t size = verify::dtype_bytes(e->dtype);
        machine::Finding found;
        found.kind = machine::FindingKind::numeric_mismatch;
        found.second =
            consumer_access(call, r, index_of(value.memory), value.offset + wrong * size);
        found.second.bytes = static_cast<std::uint32_t>(size);
        found.has_second = true;
        machine.report(found);
        if (machine.failed()) return false;
      }
    }
  }
  return true;
}

bool CaseProgram::check_reference(machine::Machine& machine) {
  if (!file_.check.reference) return true;
  const Reference& f = *file_.check.reference;
  for (std::uint32_t call = 0; call < calls_; ++call) {
    for (std::uint32_t r = 0; r < file_.ranks; ++r) {
      if (lost(r)) continue;
      // An error in residual_out is nearer to its cause.
      for (const bool is_residual : {true, false}) {
        const verify::Problem& p = payload_.expected(call)->problem;
        if (is_residual && p.rows_of(static_cast<int>(r)).count() == 0) continue;
        const verify::Comparison c = compare(call, r, is_residual);
        if (c.passed()) continue;
        mismatch_ =
            fmt::format("{}, call {}, rank {}: {}", c.name, call, r, verify::mismatch_text(c));
        machine::Finding found;
        found.kind = machine::FindingKind::numeric_mismatch;
        const std::string& name = is_residual ? f.residual_out : f.out;
        const std::uint64_t row = f.hidden * f.element_bytes();
        std::uint64_t offset = c.first.index * f.element_bytes();
        if (is_residual && file_.find(name)->bytes < f.tokens * row) {
          offset -= static_cast<std::uint64_t>(p.rows_of(static_cast<int>(r)).begin) * row;
        }
        found.second = consumer_access(call, r, index_of(name), offset);
        found.second.bytes = static_cast<decltype(found.second.bytes)>(f.element_bytes());
        found.has_second = true;
        machine.report(found);
        if (machine.failed()) return false;
      }
    }
  }
  return true;
}

void CaseProgram::check_equal(machine::Machine& machine) {
  each_difference([&](const Difference& d) {
    mismatch_ = replica_difference();
    machine::Finding f;
    f.kind = machine::FindingKind::replica_mismatch;
    f.first = consumer_access(d.call, d.rank, index_of(d.memory), d.byte);
    f.second = consumer_access(d.call, d.other, index_of(d.memory), d.byte);
    f.has_first = f.has_second = true;
    machine.report(f);
    return !machine.failed();
  });
}

}  // namespace ringfence::cases

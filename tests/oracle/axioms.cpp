#include "tests/oracle/axioms.hpp"

#include <fmt/format.h>

#include "tests/axiomatic/check.hpp"

namespace ringfence::oracle {
namespace {

namespace ax = axiomatic;
using Kind = Step::Kind;

constexpr ax::Value kCopied = 16;  // bytes, by a copy

ax::Order order_of(Order order) {
  switch (order) {
    case Order::weak:
      return ax::Order::Weak;
    case Order::relaxed:
    case Order::volatile_:
      return ax::Order::Relaxed;
    case Order::acquire:
      return ax::Order::Acquire;
    case Order::release:
      return ax::Order::Release;
    case Order::acq_rel:
      return ax::Order::AcqRel;
    case Order::sc:
      return ax::Order::Sc;
  }
  return ax::Order::Weak;
}

ax::Scope scope_of(const Step& s) {
  if (s.order == Order::volatile_) return ax::Scope::Sys;
  switch (s.scope) {
    case Scope::cta:
      return ax::Scope::Cta;
    case Scope::cluster:
      return ax::Scope::Cluster;
    case Scope::gpu:
      return ax::Scope::Gpu;
    case Scope::sys:
      return ax::Scope::Sys;
  }
  return ax::Scope::Sys;
}

ax::Instruction instruction(const Step& s, int result) {
  using Op = ax::Instruction::Kind;
  ax::Instruction i;
  i.order = order_of(s.order);
  i.scope = scope_of(s);
  i.address.location = s.location;
  i.a.constant = s.value;
  if (has_result(s.kind)) i.destination = result;
  switch (s.kind) {
    case Kind::load:
      i.kind = Op::Load;
      break;
    case Kind::store:
      i.kind = Op::Store;
      break;
    case Kind::add:
    case Kind::red:
      i.kind = Op::Rmw;
      i.op = ax::Op::Add;
      break;
    case Kind::exch:
      i.kind = Op::Rmw;
      i.op = ax::Op::Exch;
      break;
    case Kind::cas:
      i.kind = Op::Cas;
      i.a.constant = s.compare;
      i.b.constant = s.value;
      break;
    case Kind::fence:
      i.kind = Op::Fence;
      break;
    case Kind::bar_sync:
    case Kind::bar_arrive:
      i.kind = s.kind == Kind::bar_sync ? Op::BarSync : Op::BarArrive;
      i.barrier_id = s.barrier;
      i.barrier_count = s.count;
      break;
    case Kind::cluster_arrive:
      i.kind = Op::ClusterArrive;
      break;
    case Kind::cluster_wait:
      i.kind = Op::ClusterWait;
      break;
    case Kind::mbar_arrive:
    case Kind::mbar_wait:
    case Kind::mbar_test:
      i.kind = s.kind == Kind::mbar_arrive ? Op::MbarrierArrive
               : s.kind == Kind::mbar_wait ? Op::MbarrierWait
                                           : Op::MbarrierTest;
      i.mbarrier = s.location;
      i.parity = s.value;
      break;
    case Kind::bulk_load:
    case Kind::bulk_store:
    case Kind::bulk_add:
      i.kind = Op::Copy;
      i.op = s.kind == Kind::bulk_add ? ax::Op::Add : ax::Op::Move;
      i.source.location = s.other;
      i.signals = s.kind == Kind::bulk_load;
      i.mbarrier = s.barrier;
      i.bytes = i.signals ? kCopied : 0;
      break;
    case Kind::bulk_wait:
      i.kind = Op::GroupWait;
      i.reads_only = s.value % 2 == 1;
      i.pending = s.value / 2;
      break;
    case Kind::fence_async:
      i.kind = Op::Bridge;
      i.proxy = ax::Proxy::Async;
      break;
    default:
      throw Unsupported("a loop, or a value that lanes or warps hand to each other");
  }
  return i;
}

// The arrival that a copy to shared memory is printed with.
ax::Instruction expect(const Step& s) {
  ax::Instruction i;
  i.kind = ax::Instruction::Kind::MbarrierArrive;
  i.order = ax::Order::Release;
  i.scope = ax::Scope::Cta;
  i.mbarrier = s.barrier;
  i.bytes = kCopied;
  return i;
}

ax::Program program_of(const Kernel& k) {
  ax::Program p;
  p.locations.assign(k.locations.size(), {.initial = 0, .bits = 32, .zero_extends = true});
  for (const Mbarrier& b : k.mbarriers) p.mbarriers.push_back({b.count});
  for (int t = 0; t < static_cast<int>(k.threads.size()); ++t) {
    ax::Thread thread;
    thread.place.gpu = k.rank_of(t);
    thread.place.cta = k.block_of(t);
    if (k.cluster) thread.place.cluster = k.rank_of(t);
    for (const Step& s : k.threads[static_cast<std::size_t>(t)]) {
      const int result = static_cast<int>(thread.registers.size());
      if (has_result(s.kind)) thread.registers.push_back(0);
      if (s.kind == Kind::bulk_load) thread.code.push_back(expect(s));
      thread.code.push_back(instruction(s, result));
    }
    p.threads.push_back(std::move(thread));
  }
  return p;
}

struct ByAxioms {
  Outcomes outcomes;
  std::string fault;  // a race, or what is undefined; empty: none
  bool undefined = false;
  bool ends = true;  // whatever the order in which barriers are met
};

ByAxioms judge_by_axioms(const Kernel& kernel) {
  ax::Options options;
  options.load_buffering = options.sc_against_reads_from = false;
  ax::Result result;
  try {
    result = ax::check(program_of(kernel), options);
  } catch (const std::runtime_error& e) {
    throw Unsupported(e.what());  // too many events
  }
  ByAxioms by;
  by.ends = result.blocked == 0;
  by.undefined = result.undefined;
  if (result.undefined) by.fault = "an order of arrivals that is undefined";
  if (result.race_unobserved) by.fault = "a race, " + result.race_text;
  for (const ax::Outcome& all : result.outcomes) {
    // The registers, then the locations; shared ones are gone in the end.
    const std::size_t registers = all.size() - kernel.locations.size();
    Outcome o;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i >= registers && kernel.locations[i - registers].shared) continue;
      o.push_back(static_cast<std::uint64_t>(all[i]));
    }
    by.outcomes.insert(std::move(o));
  }
  return by;
}

bool copies(const Kernel& kernel) {
  for (const std::vector<Step>& code : kernel.threads) {
    for (const Step& s : code) {
      if (s.kind == Kind::bulk_load || s.kind == Kind::bulk_store || s.kind == Kind::bulk_add) {
        return true;
      }
    }
  }
  return false;
}

std::string difference_of(const Kernel& kernel, const Outcomes& axioms, const Outcomes& check) {
  std::string text;
  for (const Outcome& o : axioms) {
    if (!check.contains(o)) text += "only the axioms:" + oracle::text(kernel, o) + "\n";
  }
  for (const Outcome& o : check) {
    if (!axioms.contains(o)) text += "only check:" + oracle::text(kernel, o) + "\n";
  }
  return text;
}

}  // namespace

std::string difference_from_axioms(const Kernel& kernel, const Limits& limits) {
  const ByAxioms axioms = judge_by_axioms(kernel);
  Limits no_fuzz = limits;
  no_fuzz.schedules = 0;
  Judged check = judge(kernel, no_fuzz);
  if (!axioms.fault.empty() && check.verdict == Verdict::pass) {
    return "check says PASS, the axioms: " + axioms.fault + "\n";
  }
  const bool race = check.verdict == Verdict::fail && check.finding == "data-race";
  if (axioms.fault.empty() && race && axioms.ends && !axioms.outcomes.empty()) {
    return "only check: a data race\n";
  }
  if (axioms.undefined) return {};
  if (copies(kernel)) {
    // The engine makes a copy's accesses when it is issued, the axioms at any time behind that: of
    // a kernel with a race the outcomes differ, and nobody relies on them.
    if (check.verdict == Verdict::fail && !axioms.fault.empty()) return {};
    if (check.verdict != Verdict::pass) throw Unsupported("a finding that is no race");
    return difference_of(kernel, axioms.outcomes, check.outcomes);
  }
  check = judge(kernel, no_fuzz, true);
  if (!check.whole) {
    throw Unsupported(check.undefined ? "what is undefined" : "the search met its bound");
  }
  return difference_of(kernel, axioms.outcomes, check.outcomes);
}

}  // namespace ringfence::oracle

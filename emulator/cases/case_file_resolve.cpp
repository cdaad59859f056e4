// What holds between the parts of a case file.

#include <algorithm>
#include <map>

#include "emulator/cases/case_reader.hpp"
#include "emulator/cases/encode.hpp"
#include "verify/dtype.hpp"
#include "verify/problem.hpp"

namespace ringfence::cases {

void resolve(const Reader& r, const toml::table& root, const CaseFile& c) {
  const auto at = [&](std::string_view name, std::string_view where) -> const Memory& {
    const Memory* m = c.find(name);
    if (m == nullptr) {
      r.fail(root.source(), "{} names the memory '{}', which no [memory.{}] declares", where, name,
             name);
    }
    return *m;
  };
  const auto check = [&](const Argument& a, const std::string& where) {
    if (a.name.empty()) return;
    const Memory& m = at(a.name, where);
    const bool own = (a.kind == Argument::Kind::memory || a.kind == Argument::Kind::tensor_map) &&
                     a.peer == 0 && !a.of_rank && !a.by_multicast;
    if (!own && m.kind != MemoryKind::symmetric) {
      r.fail(root.source(), "{} needs {} of '{}', which is local; make it symmetric", where,
             a.kind == Argument::Kind::multicast || a.by_multicast ? "a multicast address"
                                                                   : "the peers",
             a.name);
    }
    std::uint64_t farthest = a.offset + a.offset_per_rank * (c.ranks - 1);
    if (a.kind == Argument::Kind::tensor_map) {
      if (farthest % 16 != 0) {
        r.fail(root.source(), "{}: offset of a tensor map: expected a multiple of 16", where);
      }
      for (unsigned i = 0; i < a.map.dimensions; ++i) {
        farthest += (a.map.size[i] - 1) * a.map.stride[i];
      }
      farthest += a.map.element_bytes - 1;
      if (farthest >= m.bytes) {
        r.fail(root.source(), "{}: a tensor map of '{}' reaches byte {}; it has {}", where, a.name,
               farthest, m.bytes);
      }
    }
    if (farthest >= m.bytes) {
      r.fail(root.source(), "{} starts {} bytes into '{}', which has {}", where, farthest, a.name,
             m.bytes);
    }
  };
  for (const Launch& l : c.launches) {
    for (const Argument& argument : l.args) {
      each_argument(argument, [&](const Argument& a) {
        check(a, fmt::format("the launch at line {}", l.line));
      });
    }
  }
  std::map<std::string, std::vector<const HostStep*>> records;
  for (const HostStep& h : c.host) {
    const std::string where = fmt::format("the [[host]] at line {}", h.line);
    for (const Argument* a : {&h.from, &h.to}) {
      if (a->name.empty()) continue;
      check(*a, where);
      const std::uint64_t last = a->offset + a->offset_per_rank * (c.ranks - 1) + h.bytes;
      if (last > c.find(a->name)->bytes) {
        r.fail(root.source(), "{} reaches byte {} of '{}', which has {}", where, last - 1, a->name,
               c.find(a->name)->bytes);
      }
      if (!h.type.empty() && (a->offset | a->offset_per_rank) % h.bytes != 0) {
        r.fail(root.source(), "{}: offset of a {}: expected a multiple of {} bytes", where, h.type,
               h.bytes);
      }
    }
    if (h.kind == HostStep::Kind::record) records[h.event].push_back(&h);
  }
  for (const HostStep& h : c.host) {
    if (h.kind != HostStep::Kind::wait_event) continue;
    for (std::uint32_t rank = 0; rank < c.ranks; ++rank) {
      if (!h.on(rank)) continue;
      const std::uint32_t owner = h.of_rank ? *h.of_rank : (rank + h.peer) % c.ranks;
      const auto& there = records[h.event];
      if (std::none_of(there.begin(), there.end(),
                       [&](const HostStep* record) { return record->on(owner); })) {
        r.fail(root.source(),
               "the [[host]] at line {} waits for the event '{}', which rank {} never records",
               h.line, h.event, owner);
      }
    }
  }
  for (const Memory& m : c.memories) {
    each_argument(m, [&](const Argument& a) { check(a, fmt::format("[memory.{}]", m.name)); });
  }
  for (const Suppression& s : c.ignore) {
    if (!s.memory.empty()) at(s.memory, fmt::format("[[ignore]] at {}", s.place));
  }
  for (const auto& n : c.check.equal) at(n, "check.equal");
  for (const auto& n : c.check.restored) at(n, "check.restored");
  if (c.check.reference) {
    const Reference& f = *c.check.reference;
    const std::uint64_t row = f.hidden * f.element_bytes();
    const auto holds = [&](const std::string& name, std::uint64_t bytes) {
      if (at(name, "check.reference").bytes < bytes) {
        r.fail(root.source(), "check.reference needs {} bytes of '{}', which has {}", bytes, name,
               at(name, "check.reference").bytes);
      }
    };
    if (f.x.empty()) {
      holds(f.tensor, f.tokens * row);
    } else {
      if (f.inner % c.ranks != 0) {
        r.fail(root.source(), "check.reference: {} ranks do not divide inner {}", c.ranks, f.inner);
      }
      holds(f.x, f.tokens * (f.inner / c.ranks) * f.element_bytes());
      holds(f.weight, f.hidden * (f.inner / c.ranks) * f.element_bytes());
    }
    holds(f.out, f.tokens * row);
    holds(f.gamma, row);
    // Every rank's own rows at least.
    const bool sharded = verify::parse_flavour(f.protocol) == verify::Flavour::tokenweave;
    const std::uint64_t own = sharded ? (f.tokens + c.ranks - 1) / c.ranks : f.tokens;
    holds(f.residual, own * row);
    holds(f.residual_out, own * row);
    for (const std::string* name : {&f.tensor, &f.x, &f.weight, &f.residual, &f.gamma, &f.beta}) {
      if (name->empty()) continue;
      const Initial::Kind kind = at(*name, "check.reference").initial.kind;
      const bool once = at(*name, "check.reference").initial.once;
      if (kind < Initial::Kind::integers || once) {
        r.fail(root.source(),
               "check.reference needs init {{{} = 'integers'}} or 'normal' or a file's of '{}'",
               verify::parse_dtype(f.dtype) == verify::Dtype::bf16 ? "bf16"
               : f.dtype == "fp16"                                 ? "f16"
                                                                   : "f32",
               *name);
      }
      const std::string& dtype = c.find(*name)->initial.dtype;
      if (kind != Initial::Kind::file &&
          verify::parse_dtype(dtype) != verify::parse_dtype(f.dtype)) {
        r.fail(root.source(),
               "check.reference has dtype {}, but the init of '{}' has {}; make them equal, or "
               "write [check.expected.{}] with value = '...'",
               f.dtype, *name, dtype, f.out);
      }
      const std::string& fed = f.x.empty() ? f.tensor : f.x;
      if ((kind == Initial::Kind::file) != (c.find(fed)->initial.kind == Initial::Kind::file)) {
        r.fail(root.source(),
               "check.reference: '{}' and '{}' must both be generated or both come from files", fed,
               *name);
      }
      const Initial::Kind first = c.find(fed)->initial.kind;
      if (!f.x.empty() && kind != Initial::Kind::integers && kind != Initial::Kind::normal) {
        r.fail(
            root.source(),
            "check.reference: x and weight are 'integers' or 'normal', not adversarial or from a "
            "file; [check.expected.{}] takes those",
            f.out);
      }
      if (kind == Initial::Kind::adversarial && first != kind) {
        r.fail(root.source(), "check.reference: '{}' is adversarial, so '{}' has to be too", *name,
               fed);
      }
    }
    if (!f.beta.empty()) holds(f.beta, row);
  }
}

}  // namespace ringfence::cases

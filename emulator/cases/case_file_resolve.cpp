// What holds between the parts of a case file.

#include "emulator/cases/case_reader.hpp"
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
  for (const Launch& l : c.launches) {
    const auto check = [&](const auto& self, const Argument& a) -> void {
      for (const Argument& field : a.fields) self(self, field);
      if (a.name.empty()) return;
      const Memory& m = at(a.name, fmt::format("the launch at line {}", l.line));
      const bool own =
          (a.kind == Argument::Kind::memory && a.peer == 0) || a.kind == Argument::Kind::tensor_map;
      if (!own && m.kind != MemoryKind::symmetric) {
        r.fail(root.source(),
               "the launch at line {} wants {} of '{}', which is local; make it symmetric", l.line,
               a.kind == Argument::Kind::multicast ? "a multicast address" : "the peers", a.name);
      }
      std::uint64_t farthest = a.offset + a.offset_per_rank * (c.ranks - 1);
      if (a.kind == Argument::Kind::tensor_map) {
        if (farthest % 16 != 0) {
          r.fail(root.source(), "the launch at line {}: a tensor map's offset is a multiple of 16",
                 l.line);
        }
        for (unsigned i = 0; i < a.map.dimensions; ++i) {
          farthest += (a.map.size[i] - 1) * a.map.stride[i];
        }
        farthest += a.map.element_bytes - 1;
        if (farthest >= m.bytes) {
          r.fail(root.source(),
                 "the launch at line {}: a tensor map of '{}' reaches byte {}; it has {}", l.line,
                 a.name, farthest, m.bytes);
        }
      }
      if (farthest >= m.bytes) {
        r.fail(root.source(), "the launch at line {} starts {} bytes into '{}', which has {}",
               l.line, farthest, a.name, m.bytes);
      }
    };
    for (const Argument& a : l.args) check(check, a);
  }
  for (const auto& n : c.check.equal) at(n, "check.equal");
  for (const auto& n : c.check.restored) at(n, "check.restored");
  if (c.check.reference) {
    const Reference& f = *c.check.reference;
    const std::uint64_t row = f.hidden * 2;
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
      holds(f.x, f.tokens * (f.inner / c.ranks) * 2);
      holds(f.weight, f.hidden * (f.inner / c.ranks) * 2);
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
      if (kind < Initial::Kind::integers) {
        r.fail(root.source(),
               "check.reference needs init {{{} = 'integers'}} or 'normal' or a file's of '{}'",
               f.dtype == "fp16" ? "f16" : "bf16", *name);
      }
      const std::string& dtype = c.find(*name)->initial.dtype;
      if (kind != Initial::Kind::file &&
          verify::parse_dtype(dtype) != verify::parse_dtype(f.dtype)) {
        r.fail(
            root.source(),
            "check.reference is of dtype {}, and the init of '{}' of {}; make them one, or write "
            "[check.expected.{}] with value = '...'",
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

// What holds between the parts of a case file.

#include <algorithm>
#include <utility>

#include "emulator/cases/case_reader.hpp"
#include "emulator/cases/encode.hpp"
#include "verify/dtype.hpp"
#include "verify/problem.hpp"

namespace ringfence::cases {

namespace {

class Resolver {
 public:
  Resolver(const Reader& reader, const toml::table& root, const CaseFile& file)
      : reader_(reader), root_(root), file_(file) {}

  void launches() const {
    for (const Launch& l : file_.launches) {
      for (const Argument& argument : l.args) {
        each_argument(argument, [&](const Argument& a) {
          address(a, fmt::format("the launch at line {}", l.line));
        });
      }
    }
  }

  void host_steps() const {
    for (const HostStep& h : file_.host) {
      const std::string where = fmt::format("the [[host]] at line {}", h.line);
      for (const Argument* a : {&h.from, &h.to}) {
        if (a->name.empty()) continue;
        address(*a, where);
        const std::uint64_t last = a->offset + a->offset_per_rank * (file_.ranks - 1) + h.bytes;
        if (last > file_.find(a->name)->bytes) {
          fail("{} reaches byte {} of '{}', which has {}", where, last - 1, a->name,
               file_.find(a->name)->bytes);
        }
        if (!h.type.empty() && (a->offset | a->offset_per_rank) % h.bytes != 0) {
          fail("{}: offset of a {}: expected a multiple of {} bytes", where, h.type, h.bytes);
        }
      }
    }
  }

  void events() const {
    for (const HostStep& h : file_.host) {
      if (h.kind != HostStep::Kind::wait_event) continue;
      for (std::uint32_t rank = 0; rank < file_.ranks; ++rank) {
        if (!h.on(rank)) continue;
        const std::uint32_t owner = h.of_rank ? *h.of_rank : (rank + h.peer) % file_.ranks;
        if (std::none_of(file_.host.begin(), file_.host.end(), [&](const HostStep& record) {
              return record.kind == HostStep::Kind::record && record.event == h.event &&
                     record.on(owner);
            })) {
          fail("the [[host]] at line {} waits for the event '{}', which rank {} never records",
               h.line, h.event, owner);
        }
      }
    }
  }

  void memories() const {
    for (const Memory& m : file_.memories) {
      each_argument(m, [&](const Argument& a) { address(a, fmt::format("[memory.{}]", m.name)); });
    }
  }

  void names() const {
    for (const Suppression& s : file_.ignore) {
      if (!s.memory.empty()) memory(s.memory, fmt::format("[[ignore]] at {}", s.place));
    }
    for (const auto& n : file_.check.equal) memory(n, "check.equal");
    for (const auto& n : file_.check.restored) memory(n, "check.restored");
  }

  void reference(const Reference& f) const {
    const std::uint64_t row = f.hidden * f.element_bytes();
    if (f.x.empty()) {
      holds(f.tensor, f.tokens * row);
    } else {
      if (f.inner % file_.ranks != 0) {
        fail("check.reference: {} ranks do not divide inner {}", file_.ranks, f.inner);
      }
      holds(f.x, f.tokens * (f.inner / file_.ranks) * f.element_bytes());
      holds(f.weight, f.hidden * (f.inner / file_.ranks) * f.element_bytes());
    }
    holds(f.out, f.tokens * row);
    holds(f.gamma, row);
    // Every rank's own rows at least.
    const bool sharded = verify::parse_flavour(f.protocol) == verify::Flavour::tokenweave;
    const std::uint64_t own = sharded ? (f.tokens + file_.ranks - 1) / file_.ranks : f.tokens;
    holds(f.residual, own * row);
    holds(f.residual_out, own * row);
    for (const std::string* name : {&f.tensor, &f.x, &f.weight, &f.residual, &f.gamma, &f.beta}) {
      if (!name->empty()) input(f, *name);
    }
    if (!f.beta.empty()) holds(f.beta, row);
  }

 private:
  template <class... T>
  [[noreturn]] void fail(fmt::format_string<T...> text, T&&... values) const {
    reader_.fail(root_.source(), text, std::forward<T>(values)...);
  }

  const Memory& memory(std::string_view name, std::string_view where) const {
    const Memory* m = file_.find(name);
    if (m == nullptr) {
      fail("{} names the memory '{}', which no [memory.{}] declares", where, name, name);
    }
    return *m;
  }

  // What an argument names is there, is reached, and is as long as it has to be.
  void address(const Argument& a, const std::string& where) const {
    if (a.name.empty()) return;
    const Memory& m = memory(a.name, where);
    const bool own = (a.kind == Argument::Kind::memory || a.kind == Argument::Kind::tensor_map) &&
                     a.peer == 0 && !a.of_rank && !a.by_multicast;
    if (!own && m.kind != MemoryKind::symmetric) {
      fail("{} needs {} of '{}', which is local; make it symmetric", where,
           a.kind == Argument::Kind::multicast || a.by_multicast ? "a multicast address"
                                                                 : "the peers",
           a.name);
    }
    std::uint64_t farthest = a.offset + a.offset_per_rank * (file_.ranks - 1);
    if (a.kind == Argument::Kind::tensor_map) {
      if (farthest % 16 != 0) {
        fail("{}: offset of a tensor map: expected a multiple of 16", where);
      }
      for (unsigned i = 0; i < a.map.dimensions; ++i) {
        farthest += (a.map.size[i] - 1) * a.map.stride[i];
      }
      farthest += a.map.element_bytes - 1;
      if (farthest >= m.bytes) {
        fail("{}: a tensor map of '{}' reaches byte {}; it has {}", where, a.name, farthest,
             m.bytes);
      }
    }
    if (farthest >= m.bytes) {
      fail("{} starts {} bytes into '{}', which has {}", where, farthest, a.name, m.bytes);
    }
  }

  void holds(const std::string& name, std::uint64_t bytes) const {
    const Memory& m = memory(name, "check.reference");
    if (m.bytes < bytes) {
      fail("check.reference needs {} bytes of '{}', which has {}", bytes, name, m.bytes);
    }
  }

  // The memory that the reference is fed with begins with something that the reference knows too.
  void input(const Reference& f, const std::string& name) const {
    const Initial& initial = memory(name, "check.reference").initial;
    const Initial::Kind kind = initial.kind;
    if (kind < Initial::Kind::integers || initial.once) {
      fail("check.reference needs init {{{} = 'integers'}} or 'normal' or a file's of '{}'",
           verify::parse_dtype(f.dtype) == verify::Dtype::bf16 ? "bf16"
           : f.dtype == "fp16"                                 ? "f16"
                                                               : "f32",
           name);
    }
    if (kind != Initial::Kind::file &&
        verify::parse_dtype(initial.dtype) != verify::parse_dtype(f.dtype)) {
      fail(
          "check.reference has dtype {}, but the init of '{}' has {}; make them equal, or write "
          "[check.expected.{}] with value = '...'",
          f.dtype, name, initial.dtype, f.out);
    }
    const std::string& fed = f.x.empty() ? f.tensor : f.x;
    const Initial::Kind first = file_.find(fed)->initial.kind;
    if ((kind == Initial::Kind::file) != (first == Initial::Kind::file)) {
      fail("check.reference: '{}' and '{}' must both be generated or both come from files", fed,
           name);
    }
    if (!f.x.empty() && kind != Initial::Kind::integers && kind != Initial::Kind::normal) {
      fail(
          "check.reference: x and weight are 'integers' or 'normal', not adversarial or from a "
          "file; [check.expected.{}] takes those",
          f.out);
    }
    if (kind == Initial::Kind::adversarial && first != kind) {
      fail("check.reference: '{}' is adversarial, so '{}' has to be too", name, fed);
    }
  }

  const Reader& reader_;
  const toml::table& root_;
  const CaseFile& file_;
};

}  // namespace

void resolve(const Reader& r, const toml::table& root, const CaseFile& c) {
  const Resolver resolver(r, root, c);
  resolver.launches();
  resolver.host_steps();
  resolver.events();
  resolver.memories();
  resolver.names();
  if (c.check.reference) resolver.reference(*c.check.reference);
}

}  // namespace ringfence::cases

#include "emulator/cases/case_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "emulator/machine/names.hpp"
#include "verify/toml.hpp"

namespace ringfence::cases {

namespace {

using Reader = verify::TomlReader<CaseError>;

Initial read_initial(const Reader& r, const toml::node& n, std::string_view where) {
  Initial out;
  if (n.is_string()) {
    const std::string word = r.text(n, where);
    if (word == "zero") return out;
    if (word != "poison") {
      r.fail(n.source(),
             "{}: init is 'zero', 'poison', {{fill = BYTE}}, {{DTYPE = 'integers' | 'normal'}} or "
             "{{file = ..., tensor = ...}}, not '{}'",
             where, word);
    }
    out.kind = Initial::Kind::poison;
    return out;
  }
  const toml::table& t = r.table(n, fmt::format("{}: init", where));
  if (t.contains("file")) {
    r.only(t, fmt::format("{}: init", where), {"file", "tensor"});
    out.kind = Initial::Kind::file;
    out.file = r.text(r.need(t, where, "file"), "file");
    out.tensor = r.text(r.need(t, where, "tensor"), "tensor");
    return out;
  }
  if (t.contains("fill")) {
    r.only(t, fmt::format("{}: init", where), {"fill"});
    out.kind = Initial::Kind::fill;
    out.fill = static_cast<std::uint8_t>(r.number(*t.get("fill"), "fill", 0, 255));
    return out;
  }
  if (t.size() != 1) r.fail(n.source(), "{}: init names one dtype", where);
  // The iterator owns what it refers to.
  const auto only = t.begin();
  const toml::key& key = only->first;
  const toml::node& value = only->second;
  out.dtype = key.str();
  const std::set<std::string> dtypes{"bf16", "f16", "f32", "u32"};
  if (dtypes.count(out.dtype) == 0) {
    r.fail(key.source(), "{}: init of dtype '{}'; known: bf16, f16, f32, u32", where, out.dtype);
  }
  const std::string word = r.text(value, "init");
  if (word == "integers") {
    out.kind = Initial::Kind::integers;
  } else if (word == "normal" && out.dtype != "u32") {
    out.kind = Initial::Kind::normal;
  } else {
    r.fail(value.source(), "{}: init of {} is 'integers'{}, not '{}'", where, out.dtype,
           out.dtype == "u32" ? "" : " or 'normal'", word);
  }
  return out;
}

template <class T>
void put(std::vector<std::uint8_t>& out, T value) {
  std::uint8_t raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.insert(out.end(), raw, raw + sizeof(T));
}

void integer_argument(const Reader& r, const toml::node& n, std::string_view type, Argument& out) {
  const auto* v = n.as_integer();
  const unsigned bits = static_cast<unsigned>(std::stoul(std::string(type.substr(1))));
  const bool is_signed = type[0] == 's';
  const std::int64_t least = !is_signed   ? 0
                             : bits == 64 ? std::numeric_limits<std::int64_t>::min()
                                          : -(std::int64_t{1} << (bits - 1));
  const std::int64_t most = bits == 64 ? std::numeric_limits<std::int64_t>::max()
                                       : (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  if (v == nullptr || v->get() < least || v->get() > most) {
    r.fail(n.source(), "argument {} must be a whole number from {} to {}", type, least, most);
  }
  const std::int64_t value = v->get();
  for (unsigned i = 0; i < bits / 8; ++i) {
    out.bytes.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
}

// {tensor_map = {memory, dtype, dims, strides, box, swizzle}}: sizes in elements, innermost first.
void tensor_map_argument(const Reader& r, const toml::node& n, Argument& out) {
  constexpr std::string_view kWhere = "tensor_map";
  const toml::table& t = r.table(n, kWhere);
  r.only(t, kWhere,
         {"memory", "offset", "offset_per_rank", "dtype", "dims", "strides", "box", "swizzle"});
  out.kind = Argument::Kind::tensor_map;
  out.name = r.text(r.need(t, kWhere, "memory"), "memory");
  if (const auto* o = t.get("offset")) out.offset = r.number(*o, "offset", 0, kMaxMemory);
  if (const auto* o = t.get("offset_per_rank")) {
    out.offset_per_rank = r.number(*o, "offset_per_rank", 0, kMaxMemory);
  }
  const std::map<std::string, unsigned> sizes{{"u8", 1},  {"u16", 2}, {"u32", 4}, {"s32", 4},
                                              {"u64", 8}, {"s64", 8}, {"f16", 2}, {"bf16", 2},
                                              {"f32", 4}, {"f64", 8}};
  const std::string dtype = r.text(r.need(t, kWhere, "dtype"), "dtype");
  if (sizes.count(dtype) == 0) {
    r.fail(t.get("dtype")->source(),
           "tensor_map dtype '{}'; known: u8, u16, u32, s32, u64, s64, f16, bf16, f32, f64", dtype);
  }
  ptx::TensorMap& map = out.map;
  map.element_bytes = static_cast<std::uint8_t>(sizes.at(dtype));
  const toml::array& dims = r.array(r.need(t, kWhere, "dims"), "dims");
  const toml::array& box = r.array(r.need(t, kWhere, "box"), "box");
  if (dims.empty() || dims.size() > ptx::TensorMap::kMostDimensions || box.size() != dims.size()) {
    r.fail(dims.source(), "dims has 1 to 5 numbers, innermost first, and box as many");
  }
  map.dimensions = static_cast<std::uint8_t>(dims.size());
  const toml::array* strides = nullptr;
  if (const auto* s = t.get("strides")) {
    strides = &r.array(*s, "strides");
    if (strides->size() + 1 != dims.size()) {
      r.fail(s->source(), "strides has a number of bytes for each dimension but the innermost");
    }
  }
  std::uint64_t dense = map.element_bytes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    map.size[i] = r.number(dims[i], "dims", 1, std::uint64_t{1} << 32);
    map.box[i] = static_cast<std::uint32_t>(r.number(box[i], "box", 1, 256));
    map.stride[i] = dense;
    if (i > 0 && strides != nullptr) {
      map.stride[i] = r.number((*strides)[i - 1], "strides", 16, kMaxMemory);
    }
    if (map.size[i] > kMaxMemory / map.stride[i]) {
      r.fail(dims.source(), "a tensor map spans at most {} bytes", kMaxMemory);
    }
    dense = map.stride[i] * map.size[i];
  }
  if (const auto* s = t.get("swizzle")) {
    const std::string word = r.text(*s, "swizzle");
    const std::map<std::string, ptx::Swizzle> known{{"none", ptx::Swizzle::none},
                                                    {"32B", ptx::Swizzle::bytes32},
                                                    {"64B", ptx::Swizzle::bytes64},
                                                    {"128B", ptx::Swizzle::bytes128}};
    if (known.count(word) == 0) {
      r.fail(s->source(), "swizzle '{}'; known: none, 32B, 64B, 128B", word);
    }
    map.swizzle = known.at(word);
  }
  if (const std::string wanted = map.fault(); !wanted.empty()) {
    r.fail(n.source(), "a tensor map needs {}", wanted);
  }
}

constexpr unsigned kMostNested = 8;

Argument read_argument(const Reader& r, const toml::node& n, unsigned depth = 0) {
  Argument out;
  if (n.is_string()) {
    const std::string word = r.text(n, "argument");
    if (word == "rank") {
      out.kind = Argument::Kind::rank;
    } else if (word == "world") {
      out.kind = Argument::Kind::world;
    } else {
      r.fail(n.source(), "argument '{}'; as a word an argument is 'rank' or 'world'", word);
    }
    return out;
  }
  const toml::table& t = r.table(n, "an argument");
  const auto address = [&](const char* key, Argument::Kind kind) {
    if (kind != Argument::Kind::replicas) {
      r.only(t, "an argument", {key, "offset", "offset_per_rank"});
    }
    out.kind = kind;
    out.name = r.text(*t.get(key), key);
    if (const auto* o = t.get("offset")) out.offset = r.number(*o, "offset", 0, kMaxMemory);
    if (const auto* o = t.get("offset_per_rank")) {
      out.offset_per_rank = r.number(*o, "offset_per_rank", 0, kMaxMemory);
    }
    return out;
  };
  if (t.contains("memory")) return address("memory", Argument::Kind::memory);
  if (t.contains("multicast")) return address("multicast", Argument::Kind::multicast);
  if (t.contains("peers")) return address("peers", Argument::Kind::peers);
  if (t.contains("tensor_map")) {
    r.only(t, "an argument", {"tensor_map"});
    tensor_map_argument(r, *t.get("tensor_map"), out);
    return out;
  }
  if (t.contains("replicas")) {
    r.only(t, "an argument", {"replicas", "count", "offset", "offset_per_rank"});
    address("replicas", Argument::Kind::replicas);
    out.count = r.number(r.need(t, "replicas", "count"), "count", 1, 1024);
    return out;
  }
  if (t.contains("struct")) {
    r.only(t, "an argument", {"struct", "count"});
    if (depth == kMostNested) r.fail(n.source(), "structs nest at most {} deep", kMostNested);
    out.kind = Argument::Kind::structure;
    if (const auto* c = t.get("count")) out.count = r.number(*c, "count", 1, 1024);
    for (const toml::node& field : r.array(*t.get("struct"), "struct")) {
      out.fields.push_back(read_argument(r, field, depth + 1));
    }
    if (out.fields.empty()) r.fail(n.source(), "a struct has at least one field");
    return out;
  }
  if (t.size() != 1) {
    r.fail(n.source(),
           "an argument has one key: memory, multicast, peers, replicas, struct, tensor_map, u8 "
           "to u64, s8 to s64, f32, f64 or bytes");
  }
  // The iterator owns what it refers to.
  const auto only = t.begin();
  const toml::key& key = only->first;
  const toml::node& value = only->second;
  const std::string type(key.str());
  const std::set<std::string> integers{"u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"};
  if (integers.count(type) != 0) {
    integer_argument(r, value, type, out);
  } else if (type == "f32") {
    put(out.bytes, static_cast<float>(r.real(value, "argument f32")));
  } else if (type == "f64") {
    put(out.bytes, r.real(value, "argument f64"));
  } else if (type == "bytes") {
    for (const toml::node& b : r.array(value, "bytes")) {
      out.bytes.push_back(static_cast<std::uint8_t>(r.number(b, "a byte", 0, 255)));
    }
    if (out.bytes.empty()) r.fail(value.source(), "bytes is empty");
  } else {
    r.fail(key.source(),
           "unknown kind of argument '{}'; known: memory, multicast, peers, replicas, struct, "
           "tensor_map, "
           "u8 to u64, s8 to s64, f32, f64, bytes",
           type);
  }
  return out;
}

Dim3 read_dim(const Reader& r, const toml::array& a, std::string_view what, std::uint64_t most_x) {
  if (a.empty() || a.size() > 3) r.fail(a.source(), "{} has 1 to 3 numbers", what);
  Dim3 out{1, 1, 1};
  for (std::size_t i = 0; i < a.size(); ++i) {
    out[i] = static_cast<std::uint32_t>(r.number(a[i], what, 1, i == 0 ? most_x : 65535));
  }
  return out;
}

Launch read_launch(const Reader& r, const toml::table& t, std::uint32_t ranks) {
  r.only(t, "[[launch]]",
         {"ptx", "kernel", "grid", "block", "cluster", "shared_bytes", "stream", "args"});
  Launch out;
  out.line = static_cast<std::uint32_t>(t.source().begin.line);
  out.ptx = r.text(r.need(t, "[[launch]]", "ptx"), "ptx");
  out.kernel = r.text(r.need(t, "[[launch]]", "kernel"), "kernel");
  const toml::array& grid = r.array(r.need(t, "[[launch]]", "grid"), "grid");
  if (!grid.empty() && grid[0].is_array()) {
    if (grid.size() != ranks) {
      r.fail(grid.source(), "grid has {} entries for {} ranks; give one for all or one for each",
             grid.size(), ranks);
    }
    for (const toml::node& g : grid) {
      out.grid.push_back(read_dim(r, r.array(g, "grid"), "grid", 0x7fffffff));
    }
  } else {
    out.grid.push_back(read_dim(r, grid, "grid", 0x7fffffff));
  }
  out.block = read_dim(r, r.array(r.need(t, "[[launch]]", "block"), "block"), "block", 1024);
  if (std::uint64_t{out.block[0]} * out.block[1] * out.block[2] > 1024) {
    r.fail(t.source(), "a block has at most 1024 threads");
  }
  if (const auto* n = t.get("cluster")) {
    out.cluster = read_dim(r, r.array(*n, "cluster"), "cluster", 16);
  }
  if (const auto* n = t.get("shared_bytes")) {
    out.shared_bytes = static_cast<std::uint32_t>(r.number(*n, "shared_bytes", 0, 232448));
  }
  if (const auto* n = t.get("stream")) {
    out.stream = static_cast<std::uint32_t>(r.number(*n, "stream", 0, 15));
  }
  for (const toml::node& a : r.array(r.need(t, "[[launch]]", "args"), "args")) {
    out.args.push_back(read_argument(r, a));
  }
  return out;
}

Check read_check(const Reader& r, const toml::table& t) {
  r.only(t, "[check]", {"modes", "equal", "restored", "reference"});
  Check out;
  if (const auto* n = t.get("modes")) {
    for (const toml::node& m : r.array(*n, "modes")) {
      const std::string word = r.text(m, "a mode");
      const auto mode = machine::parse_boundary(word);
      if (!mode) r.fail(m.source(), "mode '{}'; known: strict, stream, coherent", word);
      out.modes.push_back(*mode);
    }
    if (out.modes.empty()) r.fail(n->source(), "modes is empty; leave it out to claim all");
  }
  for (const auto& [key, list] :
       {std::pair<const char*, std::vector<std::string>*>{"equal", &out.equal},
        {"restored", &out.restored}}) {
    if (const auto* n = t.get(key)) {
      for (const toml::node& m : r.array(*n, key)) list->push_back(r.text(m, key));
    }
  }
  if (const auto* n = t.get("reference")) {
    const toml::table& f = r.table(*n, "reference");
    r.only(f, "reference",
           {"protocol", "tensor", "x", "weight", "inner", "out", "residual", "residual_out",
            "gamma", "beta", "tokens", "hidden", "dtype", "eps"});
    Reference ref;
    ref.protocol = r.text(r.need(f, "reference", "protocol"), "protocol");
    if (ref.protocol != "tokenweave" && ref.protocol != "pypto") {
      r.fail(f.source(), "reference protocol '{}'; known: tokenweave, pypto", ref.protocol);
    }
    if (f.contains("x")) {
      if (f.contains("tensor")) r.fail(f.source(), "reference has tensor, or x and weight");
      ref.x = r.text(*f.get("x"), "x");
      ref.weight = r.text(r.need(f, "reference", "weight"), "weight");
      ref.inner = r.number(r.need(f, "reference", "inner"), "inner", 1, 1u << 24);
      r.need(f, "reference with x", "out");
    } else {
      r.only(f, "reference without x",
             {"protocol", "tensor", "out", "residual", "residual_out", "gamma", "beta", "tokens",
              "hidden", "dtype", "eps"});
      ref.tensor = r.text(r.need(f, "reference", "tensor"), "tensor");
    }
    ref.residual = r.text(r.need(f, "reference", "residual"), "residual");
    ref.gamma = r.text(r.need(f, "reference", "gamma"), "gamma");
    if (const auto* b = f.get("beta")) ref.beta = r.text(*b, "beta");
    ref.out = f.contains("out") ? r.text(*f.get("out"), "out") : ref.tensor;
    ref.residual_out =
        f.contains("residual_out") ? r.text(*f.get("residual_out"), "residual_out") : ref.residual;
    ref.tokens = r.number(r.need(f, "reference", "tokens"), "tokens", 1, 1u << 24);
    ref.hidden = r.number(r.need(f, "reference", "hidden"), "hidden", 8, 1u << 20);
    if (const auto* d = f.get("dtype")) ref.dtype = r.text(*d, "dtype");
    if (ref.dtype != "bf16" && ref.dtype != "fp16") {
      r.fail(f.source(), "reference dtype '{}'; known: bf16, fp16", ref.dtype);
    }
    if (const auto* e = f.get("eps")) ref.eps = r.real(*e, "eps");
    if (!(ref.eps >= 0) || !std::isfinite(ref.eps))
      r.fail(f.source(), "eps must be finite and >= 0");
    out.reference = ref;
  }
  return out;
}

// Names that are used are declared, and kinds fit.
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
      if (a.kind != Argument::Kind::memory && a.kind != Argument::Kind::tensor_map &&
          m.kind != MemoryKind::symmetric) {
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
    const std::uint64_t own = f.protocol == "pypto" ? f.tokens : (f.tokens + c.ranks - 1) / c.ranks;
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
      const std::string& fed = f.x.empty() ? f.tensor : f.x;
      if ((kind == Initial::Kind::file) != (c.find(fed)->initial.kind == Initial::Kind::file)) {
        r.fail(root.source(),
               "check.reference: '{}' and '{}' must both be generated or both come from files", fed,
               *name);
      }
      if (!f.x.empty() && kind == Initial::Kind::file) {
        r.fail(root.source(), "check.reference: x and weight are generated, not from a file");
      }
    }
    if (!f.beta.empty()) holds(f.beta, row);
  }
}

}  // namespace

const Memory* CaseFile::find(std::string_view name) const {
  for (const Memory& m : memories) {
    if (m.name == name) return &m;
  }
  return nullptr;
}

std::string CaseFile::beside(const std::string& relative) const {
  if (!relative.empty() && relative.front() == '/') return relative;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? relative : path.substr(0, slash + 1) + relative;
}

CaseFile parse_case(std::string_view text, const std::string& path) {
  const Reader r(path);
  const toml::table root = r.parse(text);
  r.only(root, "a case file", {"version", "ranks", "calls", "budget", "memory", "launch", "check"});
  CaseFile c;
  c.path = path;
  const auto version = r.number(r.need(root, "the file", "version"), "version", 0, 1u << 30);
  if (version != 1) {
    r.fail(root.get("version")->source(), "version {}; this program reads version 1", version);
  }
  c.ranks = static_cast<std::uint32_t>(
      r.number(r.need(root, "the file", "ranks"), "ranks", 1, kMaxRanks));
  if (const auto* n = root.get("calls")) {
    c.calls = static_cast<std::uint32_t>(r.number(*n, "calls", 1, 4096));
  }
  if (const auto* n = root.get("budget")) {
    c.budget = r.number(*n, "budget", 1, std::uint64_t{1} << 40);
  }
  if (const auto* n = root.get("memory")) {
    // toml++ orders keys by name; the file's order is by line.
    for (const auto& [key, node] : r.table(*n, "memory")) {
      const std::string where = fmt::format("[memory.{}]", key.str());
      const toml::table& t = r.table(node, where);
      r.only(t, where, {"kind", "bytes", "init"});
      Memory m;
      m.name = key.str();
      const std::string kind = r.text(r.need(t, where, "kind"), "kind");
      if (kind != "symmetric" && kind != "local") {
        r.fail(t.get("kind")->source(), "{}: kind '{}'; known: symmetric, local", where, kind);
      }
      m.kind = kind == "local" ? MemoryKind::local : MemoryKind::symmetric;
      m.bytes = r.number(r.need(t, where, "bytes"), "bytes", 1, kMaxMemory);
      if (const auto* i = t.get("init")) m.initial = read_initial(r, *i, where);
      c.memories.push_back(m);
    }
    const auto line = [&](const Memory& m) {
      return root["memory"][m.name].node()->source().begin.line;
    };
    std::stable_sort(c.memories.begin(), c.memories.end(),
                     [&](const Memory& a, const Memory& b) { return line(a) < line(b); });
  }
  for (const toml::node& n : r.array(r.need(root, "the file", "launch"), "launch")) {
    c.launches.push_back(read_launch(r, r.table(n, "a launch"), c.ranks));
  }
  if (c.launches.empty()) r.fail(root.source(), "the file has no [[launch]]");
  if (const auto* n = root.get("check")) c.check = read_check(r, r.table(*n, "check"));
  if (c.check.modes.empty()) {
    c.check.modes = {machine::Boundary::strict, machine::Boundary::stream,
                     machine::Boundary::coherent};
  }
  resolve(r, root, c);
  return c;
}

CaseFile read_case(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  if (!f) throw CaseError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  std::ostringstream text;
  text << f.rdbuf();
  return parse_case(text.str(), path);
}

}  // namespace ringfence::cases

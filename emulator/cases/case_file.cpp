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

#include "emulator/cases/case_reader.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/ptx/execution.hpp"
#include "verify/dtype.hpp"
#include "verify/error.hpp"

namespace ringfence::cases {

namespace {

void read_payload(const Reader& r, const toml::key& key, const toml::node& value,
                  std::string_view where, Initial& out) {
  bool integer = false;
  try {
    integer = verify::is_integer(verify::parse_dtype(out.dtype));
  } catch (const verify::InputError&) {
    r.fail(key.source(),
           "{}: init of dtype '{}'; known: bf16, f16, f32, f64, e4m3, e5m2, s8 to s64, u8 to u64",
           where, out.dtype);
  }
  const std::string word = r.text(value, "init");
  if (word == "integers") {
    out.kind = Initial::Kind::integers;
  } else if (word == "adversarial") {
    out.kind = Initial::Kind::adversarial;
  } else if (word == "normal" && !integer) {
    out.kind = Initial::Kind::normal;
  } else {
    r.fail(value.source(), "{}: init of {} is 'integers'{} or 'adversarial', not '{}'", where,
           out.dtype, integer ? "" : ", 'normal'", word);
  }
}

Initial read_initial(const Reader& r, const toml::node& n, std::string_view where) {
  Initial out;
  if (n.is_string()) {
    const std::string word = r.text(n, where);
    if (word == "zero") return out;
    if (word != "poison") {
      r.fail(n.source(),
             "{}: init is 'zero', 'poison', {{fill = BYTE}}, {{DTYPE = 'integers' | 'normal' | "
             "'adversarial'}} or "
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
  for (const auto& [key, value] : t) {
    if (key == "same") {
      const auto* same = value.as_boolean();
      if (same == nullptr) r.fail(value.source(), "{}: same is true or false", where);
      out.same = same->get();
    } else if (key == "columns") {
      out.columns = r.number(value, "columns", 1, std::uint64_t{1} << 32);
    } else if (out.dtype.empty()) {
      out.dtype = key.str();
      read_payload(r, key, value, where, out);
    } else {
      r.fail(key.source(), "{}: init names one dtype", where);
    }
  }
  if (out.dtype.empty()) r.fail(n.source(), "{}: init names one dtype", where);
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

Dim3 read_grid(const Reader& r, const toml::array& a) {
  const Dim3 out = read_dim(r, a, "grid", ptx::kMostBlocks);
  // Within 64 bits: of three numbers the first has 25, the others 16.
  if (std::uint64_t{out[0]} * out[1] * out[2] > ptx::kMostBlocks) {
    r.fail(a.source(), "a grid has at most {} blocks", ptx::kMostBlocks);
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
      out.grid.push_back(read_grid(r, r.array(g, "grid")));
    }
  } else {
    out.grid.push_back(read_grid(r, grid));
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
  r.only(t, "[check]", {"modes", "equal", "restored", "reference", "expected", "let"});
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
            "gamma", "beta", "tokens", "hidden", "dtype", "eps", "round", "tiles", "accumulate"});
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
              "hidden", "dtype", "eps", "round", "accumulate"});
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
  read_expected(r, t, out);
  return out;
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
  if (c.check.reference) express_reference(r, *root["check"]["reference"].as_table(), c);
  resolve_expected(r, root, c);
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

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
#include "emulator/ptx/link.hpp"
#include "emulator/ptx/parser.hpp"
#include "emulator/ptx/source.hpp"
#include "verify/dtype.hpp"
#include "verify/error.hpp"

namespace ringfence::cases {

namespace {

Dim3 read_dim(const Reader& r, const toml::array& a, std::string_view what, std::uint64_t most_x,
              std::uint64_t least = 1) {
  if (a.empty() || a.size() > 3) r.fail(a.source(), "{} has 1 to 3 numbers", what);
  Dim3 out{1, 1, 1};
  for (std::size_t i = 0; i < a.size(); ++i) {
    out[i] = static_cast<std::uint32_t>(r.number(a[i], what, least, i == 0 ? most_x : 65535));
  }
  return out;
}

Dim3 read_grid(const Reader& r, const toml::array& a) {
  const Dim3 out = read_dim(r, a, "grid", ptx::kMostBlocks, 0);
  // Within 64 bits: of three numbers the first has 25, the others 16.
  if (std::uint64_t{out[0]} * out[1] * out[2] > ptx::kMostBlocks) {
    r.fail(a.source(), "a grid has at most {} blocks", ptx::kMostBlocks);
  }
  return out;
}

Dim3 read_block(const Reader& r, const toml::array& a) {
  const Dim3 out = read_dim(r, a, "block", 1024);
  if (std::uint64_t{out[0]} * out[1] * out[2] > 1024) {
    r.fail(a.source(), "a block has at most 1024 threads");
  }
  return out;
}

// One for all ranks, or a list with one for each: `one` of a list is itself a list.
template <class Read>
auto read_by_rank(const Reader& r, const toml::table& t, std::string_view key, std::uint32_t ranks,
                  const Read& read) {
  const toml::node& n = r.need(t, "[[launch]]", key);
  std::vector<decltype(read(n))> out;
  const auto* const list = n.as_array();
  const bool each =
      list != nullptr && !list->empty() && (list->front().is_array() || list->front().is_string());
  if (!each) {
    out.push_back(read(n));
    return out;
  }
  if (list->size() != ranks) {
    r.fail(n.source(), "{} has {} entries for {} ranks; give one for all or one for each", key,
           list->size(), ranks);
  }
  for (const toml::node& one : *list) out.push_back(read(one));
  return out;
}

Launch read_launch(const Reader& r, const toml::table& t, std::uint32_t ranks) {
  r.only(t, "[[launch]]",
         {"ptx", "link", "kernel", "grid", "block", "cluster", "shared_bytes", "stream",
          "cooperative", "dependent", "args"});
  Launch out;
  out.line = static_cast<std::uint32_t>(t.source().begin.line);
  const auto words = [&](const char* key, std::string& all, std::vector<std::string>& each) {
    each = read_by_rank(r, t, key, ranks, [&](const toml::node& n) { return r.text(n, key); });
    all = each[0];
    if (each.size() == 1) each.clear();
  };
  words("ptx", out.ptx, out.ptx_by_rank);
  words("kernel", out.kernel, out.kernel_by_rank);
  if (const auto* n = t.get("link")) {
    for (const toml::node& one : r.array(*n, "link")) {
      out.link.push_back(r.text(one, "a module to link"));
    }
  }
  out.grid = read_by_rank(r, t, "grid", ranks,
                          [&](const toml::node& n) { return read_grid(r, r.array(n, "grid")); });
  out.block_by_rank = read_by_rank(r, t, "block", ranks, [&](const toml::node& n) {
    return read_block(r, r.array(n, "block"));
  });
  out.block = out.block_by_rank[0];
  if (out.block_by_rank.size() == 1) out.block_by_rank.clear();
  if (const auto* n = t.get("cluster")) {
    out.cluster = read_dim(r, r.array(*n, "cluster"), "cluster", 16);
  }
  if (const auto* n = t.get("shared_bytes")) {
    out.shared_bytes = static_cast<std::uint32_t>(r.number(*n, "shared_bytes", 0, 232448));
  }
  if (const auto* n = t.get("stream")) {
    out.stream = static_cast<std::uint32_t>(r.number(*n, "stream", 0, 15));
  }
  const auto flag = [&](const char* key, bool& to) {
    const auto* n = t.get(key);
    if (n == nullptr) return;
    if (!n->is_boolean()) r.fail(n->source(), "{}: expected true or false", key);
    to = n->as_boolean()->get();
  };
  flag("cooperative", out.cooperative);
  flag("dependent", out.dependent);
  for (const toml::node& a : r.array(r.need(t, "[[launch]]", "args"), "args")) {
    out.args.push_back(read_argument(r, a, ranks));
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
    out.names_modes = true;
    if (out.modes.empty()) r.fail(n->source(), "modes is empty; leave it out to claim stream");
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
      if (f.contains("tensor")) r.fail(f.source(), "reference: expected tensor, or x and weight");
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
    if (ref.dtype != "bf16" && ref.dtype != "fp16" && ref.dtype != "fp32") {
      r.fail(f.source(), "reference dtype '{}'; known: bf16, fp16, fp32", ref.dtype);
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

std::string CaseFile::ptx_text(const std::string& file, bool relocatable) const {
  const auto here = contents.find(file);
  return here != contents.end() ? here->second : ptx::read_ptx(file, relocatable);
}

std::vector<std::string> CaseFile::modules_of(const Launch& launch, std::uint32_t rank) const {
  const std::string main = beside(launch.ptx_of(rank));
  std::vector<std::string> out = {main};
  if (!contents.contains(main)) out = ptx::modules_with(main, launch.kernel_of(rank));
  for (const std::string& other : launch.link) {
    const std::string path = beside(other);
    if (contents.contains(path)) {
      out.push_back(path);
    } else {
      const std::vector<std::string> modules = ptx::modules_of(path);
      out.insert(out.end(), modules.begin(), modules.end());
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

ptx::Module CaseFile::module(const std::vector<std::string>& paths) const {
  std::vector<ptx::Module> modules;
  for (const std::string& path : paths) {
    modules.push_back(ptx::parse(ptx_text(path, paths.size() > 1), path, paths.size() > 1));
  }
  return ptx::link(std::move(modules));
}

verify::Safetensors CaseFile::tensors(const std::string& file) const {
  const auto here = contents.find(file);
  if (here == contents.end()) return verify::read_safetensors(file);
  return verify::read_safetensors(file, here->second.data(), here->second.size());
}

CaseFile parse_case(std::string_view text, const std::string& path) {
  const Reader r(path);
  const toml::table root = r.parse(text);
  r.only(root, "a case file",
         {"version", "ranks", "calls", "budget", "reach", "memory", "launch", "host", "check",
          "ignore", "same_value", "multiprocessors"});
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
  if (const auto* n = root.get("multiprocessors")) {
    c.multiprocessors = static_cast<std::uint32_t>(r.number(*n, "multiprocessors", 1, 1024));
  }
  if (const auto* n = root.get("reach")) {
    for (const toml::node& list : r.array(*n, "reach")) {
      std::vector<std::uint32_t>& of = c.reach.emplace_back();
      for (const toml::node& rank : r.array(list, "reach")) {
        of.push_back(static_cast<std::uint32_t>(r.number(rank, "reach", 0, c.ranks - 1)));
      }
    }
    if (c.reach.size() != c.ranks) {
      r.fail(n->source(), "reach: expected a list of ranks for each of {} ranks", c.ranks);
    }
  }
  if (const auto* n = root.get("budget")) {
    c.budget = r.number(*n, "budget", 1, std::uint64_t{1} << 40);
  }
  if (const auto* n = root.get("same_value")) {
    const auto word = n->value<std::string>();
    if (word != "note" && word != "race")
      r.fail(n->source(), "same_value: expected \"note\" or \"race\"");
    c.same_value_races = word == "race";
  }
  if (const auto* n = root.get("memory")) {
    c.memories = read_memories(r, r.table(*n, "memory"), c.ranks);
  }
  for (const toml::node& n : r.array(r.need(root, "the file", "launch"), "launch")) {
    c.launches.push_back(read_launch(r, r.table(n, "a launch"), c.ranks));
    const Launch& last = c.launches.back();
    const auto same = [&](const Launch& l) { return l.stream == last.stream; };
    if (last.dependent && std::none_of(c.launches.begin(), c.launches.end() - 1, same)) {
      r.fail(n.source(), "dependent = true needs a [[launch]] before it on stream {}", last.stream);
    }
  }
  if (c.launches.empty()) r.fail(root.source(), "the file has no [[launch]]");
  if (const auto* n = root.get("host")) {
    for (const toml::node& step : r.array(*n, "host")) {
      c.host.push_back(read_host_step(r, r.table(step, "[[host]]"), c));
    }
  }
  c.ignore = read_ignores(r, root, path);
  if (const auto* n = root.get("check")) c.check = read_check(r, r.table(*n, "check"));
  // What shipped kernels are written for: the launches of a stream, and what they order, are in the
  // manual (PTX ISA 8.9.4).
  if (c.check.modes.empty()) c.check.modes = {machine::Boundary::stream};
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

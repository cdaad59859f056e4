// [check.expected.MEMORY] and [check.let]: what memories should hold, as expressions of the inputs.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "emulator/cases/case_reader.hpp"
#include "verify/dtype.hpp"
#include "verify/error.hpp"
#include "verify/expression.hpp"

namespace ringfence::cases {
namespace {

// Keys that stand for one function of a memory.
constexpr std::string_view kCollectives[] = {"sum",    "max",           "min",       "product",
                                             "concat", "scatter",       "broadcast", "all_to_all",
                                             "copy",   "reduce_scatter"};

std::string quoted(const std::string& memory) { return "'" + memory + "'"; }

std::string collective(const std::string& key, const std::string& memory) {
  if (key == "copy") return quoted(memory);
  if (key == "reduce_scatter") return "part(sum(" + quoted(memory) + "))";
  return key + "(" + quoted(memory) + ")";
}

void check_dtype(const Reader& r, const toml::node& n, const std::string& word) {
  try {
    verify::parse_dtype(word);
  } catch (const verify::InputError& e) {
    r.fail(n.source(), "{}", e.what());
  }
}

std::vector<std::uint32_t> read_numbers(const Reader& r, const toml::node& n,
                                        std::string_view what) {
  std::vector<std::uint32_t> out;
  for (const toml::node& x : r.array(n, what)) {
    out.push_back(static_cast<std::uint32_t>(r.number(x, what, 0, 4095)));
  }
  return out;
}

double read_tolerance(const Reader& r, const toml::node& n, std::string_view what) {
  const double x = r.real(n, what);
  if (!(x >= 0) || !std::isfinite(x)) r.fail(n.source(), "{} is a number, 0 or more", what);
  return x;
}

std::string one_value(const Reader& r, const toml::table& t, std::string_view where) {
  std::string value;
  int given = t.contains("file") ? 1 : 0;
  if (const auto* n = t.get("value")) {
    value = r.text(*n, "value");
    ++given;
  }
  for (const std::string_view key : kCollectives) {
    const auto* n = t.get(key);
    if (n == nullptr) continue;
    value = collective(std::string(key), r.text(*n, key));
    ++given;
  }
  if (given != 1) {
    r.fail(t.source(), "{}: expected one of value, file, {}", where, fmt::join(kCollectives, ", "));
  }
  return value;
}

ExpectedValue read_one(const Reader& r, const std::string& memory, const toml::table& t) {
  const std::string where = fmt::format("[check.expected.{}]", memory);
  std::vector<std::string_view> known{"value", "file",       "tensor", "columns", "dtype", "offset",
                                      "round", "accumulate", "ranks",  "calls",   "rtol",  "atol"};
  known.insert(known.end(), std::begin(kCollectives), std::end(kCollectives));
  r.only(t, where, known);
  ExpectedValue e;
  e.memory = memory;
  e.line = static_cast<std::uint32_t>(t.source().begin.line);
  e.value = one_value(r, t, where);
  if (const auto* n = t.get("file")) {
    e.file = r.text(*n, "file");
    e.tensor = r.text(r.need(t, where, "tensor"), "tensor");
  } else if (t.contains("tensor")) {
    r.fail(t.source(), "{}: tensor needs file", where);
  }
  if (const auto* n = t.get("columns")) {
    e.columns = r.number(*n, "columns", 1, std::uint64_t{1} << 32);
  }
  if (const auto* n = t.get("dtype")) check_dtype(r, *n, e.dtype = r.text(*n, "dtype"));
  if (const auto* n = t.get("accumulate")) {
    check_dtype(r, *n, e.accumulate = r.text(*n, "accumulate"));
  }
  if (const auto* n = t.get("offset")) e.offset = r.number(*n, "offset", 0, kMaxMemory);
  if (const auto* n = t.get("round")) {
    for (const toml::node& x : r.array(*n, "round")) e.round.push_back(r.text(x, "round"));
  }
  if (const auto* n = t.get("ranks")) e.ranks = read_numbers(r, *n, "ranks");
  if (const auto* n = t.get("calls")) e.calls = read_numbers(r, *n, "calls");
  if (const auto* n = t.get("rtol")) e.rtol = read_tolerance(r, *n, "rtol");
  if (const auto* n = t.get("atol")) e.atol = read_tolerance(r, *n, "atol");
  return e;
}

// The names that an expression uses, with those of the named expressions in it.
void names_of(const Check& check, const std::string& text, std::vector<std::string>& out) {
  const verify::Expression expression = verify::Expression::parse(text);
  for (const std::string& name : expression.names()) {
    if (std::find(out.begin(), out.end(), name) != out.end()) continue;
    out.push_back(name);
    const auto let = check.let.find(name);
    if (let != check.let.end()) names_of(check, let->second, out);
  }
}

}  // namespace

void read_expected(const Reader& r, const toml::table& check, Check& out) {
  if (const auto* n = check.get("let")) {
    for (const auto& [key, value] : r.table(*n, "[check.let]")) {
      out.let[std::string(key.str())] = r.text(value, key.str());
    }
  }
  const auto* n = check.get("expected");
  if (n == nullptr) return;
  for (const auto& [key, value] : r.table(*n, "[check.expected]")) {
    const std::string memory(key.str());
    out.expected.push_back(
        read_one(r, memory, r.table(value, fmt::format("[check.expected.{}]", memory))));
  }
  std::stable_sort(out.expected.begin(), out.expected.end(),
                   [](const auto& a, const auto& b) { return a.line < b.line; });
}

void resolve_expected(const Reader& r, const toml::table& root, const CaseFile& c) {
  for (const ExpectedValue& e : c.check.expected) {
    const std::string where = fmt::format("[check.expected.{}] at line {}", e.memory, e.line);
    if (c.find(e.memory) == nullptr) {
      r.fail(root.source(), "{} names a memory that no [memory.{}] declares", where, e.memory);
    }
    for (const std::uint32_t rank : e.ranks) {
      if (rank >= c.ranks) r.fail(root.source(), "{}: rank {} of {}", where, rank, c.ranks);
    }
    for (const std::string& name : e.round) {
      if (c.check.let.count(name) == 0) {
        r.fail(root.source(), "{}: round names '{}', which [check.let] does not define", where,
               name);
      }
    }
    if (e.value.empty()) continue;
    std::vector<std::string> names;
    try {
      names_of(c.check, e.value, names);
    } catch (const verify::InputError& error) {
      r.fail(root.source(), "{}: {}", where, error.what());
    }
    for (const std::string& name : names) {
      if (c.check.let.count(name) != 0) continue;
      const Memory* const m = c.find(name);
      if (m == nullptr) {
        r.fail(root.source(), "{} names '{}', which is neither a memory nor in [check.let]", where,
               name);
      }
      if (m->initial.kind < Initial::Kind::integers) {
        r.fail(root.source(),
               "{} names '{}', whose init holds no values; give it init = {{DTYPE = 'integers' | "
               "'normal' | 'adversarial'}} or {{file = ..., tensor = ...}}",
               where, name);
      }
    }
  }
  for (const auto& [name, text] : c.check.let) {
    if (c.find(name) != nullptr) {
      r.fail(root.source(), "[check.let] defines '{}', which is a memory; choose another name",
             name);
    }
  }
}

void express_reference(const Reader& r, const toml::table& t, CaseFile& c) {
  const auto* round = t.get("round");
  const auto* tiles = t.get("tiles");
  const Reference f = *c.check.reference;
  const bool whole = !f.x.empty();
  // All ranks have these.
  for (Memory& m : c.memories) {
    const bool one = m.name == f.residual || m.name == f.gamma || m.name == f.beta;
    m.initial.same = m.initial.same || one;
    m.initial.columns = m.initial.columns != 0 ? m.initial.columns : f.hidden;
  }
  if (round == nullptr && tiles == nullptr && !t.contains("accumulate")) return;
  const std::uint64_t all_rows = f.tokens * f.hidden * f.element_bytes();
  for (const std::string& name : {f.residual, f.residual_out}) {
    if (c.find(name)->bytes >= all_rows) continue;
    r.fail(t.source(),
           "reference with round: '{}' holds each rank's own rows alone; expected all rows", name);
  }
  Check& check = c.check;
  const auto define = [&](const std::string& name, const std::string& text) {
    if (check.let.count(name) != 0)
      r.fail(t.source(), "[check.let] and the reference define '{}'", name);
    check.let[name] = text;
  };
  const auto flat = [&](const std::string& memory, std::uint64_t count) {
    return fmt::format("slice('{}', first = 0, count = {})", memory, count);
  };
  if (whole) {
    std::string order;
    if (tiles != nullptr) {
      std::vector<std::uint64_t> sizes;
      for (const toml::node& n : r.array(*tiles, "tiles")) {
        sizes.push_back(r.number(n, "tiles", 1, 1U << 24));
      }
      if (sizes.size() != 3) r.fail(tiles->source(), "tiles: expected [M, K, N]");
      order = fmt::format(", tiles = [{}]", fmt::join(sizes, ", "));
    }
    const std::uint64_t inner = f.inner / c.ranks;
    define("partial", fmt::format("matmul({}, {}, inner = {}{})", flat(f.x, f.tokens * inner),
                                  flat(f.weight, f.hidden * inner), inner, order));
    define("sum", "sum(partial)");
  } else {
    define("sum", fmt::format("sum({})", flat(f.tensor, f.tokens * f.hidden)));
  }
  define("residual_sum", fmt::format("sum + {}", flat(f.residual, f.tokens * f.hidden)));
  define("scaled", fmt::format("residual_sum * rms(residual_sum, eps = {})", f.eps));
  define("gamma_product", fmt::format("scaled * {}", flat(f.gamma, f.hidden)));
  ExpectedValue out;
  out.line = static_cast<std::uint32_t>(t.source().begin.line);
  out.columns = f.hidden;
  out.dtype = f.dtype;
  if (round != nullptr) {
    for (const toml::node& n : r.array(*round, "round")) {
      std::string name = r.text(n, "round");
      const bool known = name == "sum" || name == "residual" || name == "scaled" ||
                         (name == "product" && !f.beta.empty()) || (name == "partial" && whole);
      if (!known) {
        r.fail(n.source(), "round of '{}'; known here: {}sum, residual, scaled{}", name,
               whole ? "partial, " : "", f.beta.empty() ? "" : ", product");
      }
      if (name == "residual") name = "residual_sum";
      if (name == "product") name = "gamma_product";
      out.round.push_back(name);
    }
  }
  if (const auto* n = t.get("accumulate")) {
    check_dtype(r, *n, out.accumulate = r.text(*n, "accumulate"));
  }
  out.memory = f.out;
  out.value = "gamma_product";
  if (!f.beta.empty()) out.value += " + " + flat(f.beta, f.hidden);
  ExpectedValue residual_out = out;
  residual_out.memory = f.residual_out;
  residual_out.value = "residual_sum";
  // An error there is nearer to its cause.
  check.expected.push_back(residual_out);
  check.expected.push_back(out);
  check.reference.reset();
}

}  // namespace ringfence::cases

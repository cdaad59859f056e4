// [memory.*] of a case file.

#include <fmt/format.h>

#include <algorithm>

#include "emulator/cases/case_reader.hpp"
#include "emulator/cases/encode.hpp"
#include "emulator/cases/space.hpp"
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

bool read_flag(const Reader& r, const toml::node& n, std::string_view where, std::string_view key) {
  const auto* flag = n.as_boolean();
  if (flag == nullptr) r.fail(n.source(), "{}: {}: expected true or false", where, key);
  return flag->get();
}

// Whether the init says what is there at the start, piece by piece.
bool is_content(const toml::table& t) {
  for (const char* key :
       {"struct", "memory", "multicast", "peers", "replicas", "distances", "tensor_map", "at"}) {
    if (t.contains(key)) return true;
  }
  for (const auto& [key, value] : t) {
    const std::string_view k = key.str();
    if (k == "same" || k == "columns" || k == "once" || k == "fill" || k == "file" ||
        k == "tensor" || k == "unset") {
      continue;
    }
    if (const auto* const word = value.as_string()) {
      // A formula, not the name of a payload.
      const std::string& text = word->get();
      return text == "rank" || text == "world" || text == "index" || text == "call" ||
             text.find_first_of("0123456789+-*/%() ") != std::string::npos;
    }
    return value.is_array() || value.is_number();
  }
  return false;
}

void read_elements(const Reader& r, const toml::table& t, std::string_view where, Content& out) {
  for (const auto& [key, value] : t) {
    if (key == "at") continue;
    if (!out.dtype.empty()) r.fail(key.source(), "{}: init: expected one dtype", where);
    out.dtype = key.str();
    bool integer = false;
    try {
      integer = verify::is_integer(verify::parse_dtype(out.dtype));
    } catch (const verify::InputError&) {
      r.fail(key.source(),
             "{}: init has the key '{}'; known: a dtype (bf16 f16 f32 f64 e4m3 e5m2 s8 to s64 u8 "
             "to u64), struct, memory, multicast, peers, replicas, distances, "
             "tensor_map, at",
             where, out.dtype);
    }
    const auto one = [&](const toml::node& n) {
      if (integer) {
        out.numbers.push_back(read_formula(r, n, out.dtype));
        if (out.numbers.back().uses_call()) {
          r.fail(
              n.source(),
              "{}: init is written once, before the first call: expected a formula without 'call'",
              where);
        }
      } else {
        out.reals.push_back(r.real(n, out.dtype));
      }
    };
    out.repeats = !value.is_array();
    if (out.repeats) {
      one(value);
      continue;
    }
    for (const toml::node& n : r.array(value, out.dtype)) one(n);
    if (out.numbers.empty() && out.reals.empty()) {
      r.fail(value.source(), "{}: a list of numbers is empty", where);
    }
  }
  if (out.dtype.empty())
    r.fail(t.source(), "{}: init has only 'at': expected content beside it", where);
}

Content read_content(const Reader& r, const toml::node& n, std::string_view where,
                     std::uint32_t ranks) {
  const toml::table& t = r.table(n, fmt::format("{}: init", where));
  Content out;
  if (const auto* at = t.get("at")) out.at = r.number(*at, "at", 0, kMaxBytes);
  toml::table rest = t;
  rest.erase("at");
  const bool scalar = rest.size() == 1 && !rest.contains("struct") && !rest.contains("memory") &&
                      !rest.contains("multicast") && !rest.contains("peers") &&
                      !rest.contains("replicas") && !rest.contains("distances") &&
                      !rest.contains("tensor_map");
  if (scalar || rest.empty()) {
    read_elements(r, t, where, out);
  } else {
    out.value = read_argument(r, rest, ranks);
    each_argument(*out.value, [&](const Argument& a) {
      for (const Formula& f : a.numbers) {
        if (f.uses_call())
          r.fail(
              n.source(),
              "{}: init is written once, before the first call: expected a formula without 'call'",
              where);
      }
    });
  }
  return out;
}

Initial read_initial(const Reader& r, const toml::node& n, std::string_view where,
                     std::uint32_t ranks) {
  Initial out;
  if (n.is_array()) {
    out.kind = Initial::Kind::contents;
    for (const toml::node& part : *n.as_array()) {
      out.contents.push_back(read_content(r, part, where, ranks));
    }
    if (out.contents.empty()) r.fail(n.source(), "{}: init is empty", where);
    return out;
  }
  if (n.is_string()) {
    const std::string word = r.text(n, where);
    if (word == "zero") return out;
    if (word != "poison") {
      r.fail(n.source(),
             "{}: init is 'zero', 'poison', {{fill = BYTE}}, {{DTYPE = 'integers' | 'normal' | "
             "'adversarial'}}, {{DTYPE = NUMBERS}}, {{struct = [...]}} or "
             "{{file = ..., tensor = ...}}, not '{}'",
             where, word);
    }
    out.kind = Initial::Kind::poison;
    return out;
  }
  const toml::table& t = r.table(n, fmt::format("{}: init", where));
  if (is_content(t)) {
    out.kind = Initial::Kind::contents;
    out.contents.push_back(read_content(r, n, where, ranks));
    return out;
  }
  if (const auto* once = t.get("once")) out.once = read_flag(r, *once, where, "once");
  if (t.contains("file")) {
    r.only(t, fmt::format("{}: init", where), {"file", "tensor", "once", "unset"});
    out.kind = Initial::Kind::file;
    out.file = r.text(r.need(t, where, "file"), "file");
    out.tensor = r.text(r.need(t, where, "tensor"), "tensor");
    if (const auto* unset = t.get("unset")) {
      if (!out.once) r.fail(unset->source(), "{}: init with 'unset': expected once = true", where);
      out.unset = r.text(*unset, "unset");
    }
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
      out.same = read_flag(r, value, where, "same");
    } else if (key == "once") {
      continue;
    } else if (key == "columns") {
      out.columns = r.number(value, "columns", 1, std::uint64_t{1} << 32);
    } else if (out.dtype.empty()) {
      out.dtype = key.str();
      read_payload(r, key, value, where, out);
    } else {
      r.fail(key.source(), "{}: init: expected one dtype", where);
    }
  }
  if (out.dtype.empty()) r.fail(n.source(), "{}: init: expected one dtype", where);
  return out;
}

void read_addresses(const Reader& r, const toml::node& n, std::string_view where,
                    std::uint32_t ranks, Memory& out) {
  const toml::array& list = r.array(n, "addresses");
  if (list.size() != ranks || out.distance != 0) {
    r.fail(n.source(), "{}: addresses: expected one for each of {} ranks, and no distance", where,
           ranks);
  }
  for (const toml::node& one : list) {
    const std::uint64_t at = r.number(one, "addresses", 0, Space::kBase + kMaxMemory);
    if (at != 0 && (at < Space::kBase || at % Space::kPageBytes != 0)) {
      r.fail(one.source(),
             "{}: addresses: expected multiples of {:#x}, at least {:#x}, or 0 for any", where,
             Space::kPageBytes, Space::kBase);
    }
    out.addresses.push_back(at);
  }
}

Memory read_memory(const Reader& r, const toml::table& t, std::string_view name,
                   std::uint32_t ranks) {
  const std::string where = fmt::format("[memory.{}]", name);
  r.only(t, where, {"kind", "bytes", "init", "distance", "addresses", "variables", "everybody"});
  Memory m;
  m.name = name;
  m.line = static_cast<std::uint32_t>(t.source().begin.line);
  const std::string kind = r.text(r.need(t, where, "kind"), "kind");
  if (kind != "symmetric" && kind != "local") {
    r.fail(t.get("kind")->source(), "{}: kind '{}'; known: symmetric, local", where, kind);
  }
  m.kind = kind == "local" ? MemoryKind::local : MemoryKind::symmetric;
  if (const auto* i = t.get("init")) m.initial = read_initial(r, *i, where, ranks);
  // What is there at the start says how much there is.
  std::uint64_t extent = 0;
  bool open = m.initial.contents.empty();
  for (const Content& c : m.initial.contents) {
    open = open || c.repeats;
    extent = std::max(extent, c.at + content_bytes(c));
  }
  if (open || t.contains("bytes")) {
    m.bytes = r.number(r.need(t, where, "bytes"), "bytes", 1, kMaxBytes);
  } else {
    m.bytes = extent;
  }
  if (extent > m.bytes) {
    r.fail(t.get("bytes")->source(), "{}: init has {} bytes, bytes says {}", where, extent,
           m.bytes);
  }
  const bool is_struct = m.initial.contents.size() == 1 && m.initial.contents[0].value &&
                         !t.get("init")->as_table()->contains("at");
  if (is_struct && extent != m.bytes) {
    r.fail(
        t.get("bytes")->source(),
        "{}: init has {} bytes, bytes says {}; leave bytes out, or give init an 'at' so that the "
        "rest is zero",
        where, extent, m.bytes);
  }
  if (const auto* d = t.get("distance")) {
    m.distance = r.number(*d, "distance", 1, kMaxMemory);
    constexpr std::uint64_t kPage = std::uint64_t{1} << 21;
    if (m.kind == MemoryKind::local || m.distance % kPage != 0 || m.distance < m.bytes) {
      r.fail(
          d->source(),
          "{}: distance: expected a symmetric memory, and a multiple of {} that is at least bytes",
          where, kPage);
    }
  }
  if (const auto* a = t.get("addresses")) read_addresses(r, *a, where, ranks, m);
  if (const auto* e = t.get("everybody")) m.everybody = read_flag(r, *e, where, "everybody");
  if (const auto* v = t.get("variables")) m.variables = r.text(*v, "variables");
  return m;
}

}  // namespace

std::vector<Memory> read_memories(const Reader& r, const toml::table& memories,
                                  std::uint32_t ranks) {
  std::vector<Memory> out;
  for (const auto& [key, node] : memories) {
    out.push_back(
        read_memory(r, r.table(node, fmt::format("[memory.{}]", key.str())), key.str(), ranks));
  }
  // toml++ orders keys by name; the file's order is by line.
  std::stable_sort(out.begin(), out.end(),
                   [](const Memory& a, const Memory& b) { return a.line < b.line; });
  return out;
}

}  // namespace ringfence::cases

// [[host]] of a case file: what the host puts on streams between launches.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "emulator/cases/case_reader.hpp"

namespace ringfence::cases {

bool HostStep::on(std::uint32_t rank) const {
  return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

namespace {

constexpr const char* kSteps[] = {"memset", "copy", "write", "wait", "record", "wait_event"};

// {memory = NAME, peer = N, rank = N, offset = N}
Argument read_place(const Reader& r, const toml::table& t, const char* key, std::uint32_t ranks) {
  const toml::node& n = r.need(t, "[[host]]", key);
  const toml::table& place = r.table(n, key);
  if (!place.contains("memory")) r.fail(n.source(), "{} is {{memory = NAME}}", key);
  return read_argument(r, n, ranks);
}

bool read_flag(const Reader& r, const toml::table& t, const char* key, bool usual) {
  const auto* const n = t.get(key);
  if (n == nullptr) return usual;
  if (!n->is_boolean()) r.fail(n->source(), "{}: expected true or false", key);
  return n->as_boolean()->get();
}

void read_value(const Reader& r, const toml::table& t, std::string_view where, HostStep& out) {
  out.type = t.contains("u64") ? "u64" : "u32";
  const toml::node& n = r.need(t, where, out.type);
  out.value = read_formula(r, n, out.type);
  if (out.value.uses_index()) r.fail(n.source(), "{}: 'index' is of a memory's elements", where);
  out.bytes = out.type == "u64" ? 8 : 4;
}

void read_wait(const Reader& r, const toml::table& t, HostStep& out) {
  const std::map<std::string, machine::Compare> known{{"geq", machine::Compare::ge},
                                                      {"eq", machine::Compare::eq}};
  if (const auto* n = t.get("compare")) {
    const std::string word = r.text(*n, "compare");
    if (known.count(word) == 0) r.fail(n->source(), "compare '{}'; known: geq, eq", word);
    out.compare = known.at(word);
  }
  out.flush = read_flag(r, t, "flush", false);
}

}  // namespace

HostStep read_host_step(const Reader& r, const toml::table& t, const CaseFile& file) {
  using Kind = HostStep::Kind;
  r.only(t, "[[host]]",
         {"memset", "copy", "write", "wait", "record", "wait_event", "stream", "ranks"});
  HostStep out;
  out.line = static_cast<std::uint32_t>(t.source().begin.line);
  for (const Launch& l : file.launches) out.before += l.line < out.line ? 1 : 0;
  const char* what = nullptr;
  for (std::size_t i = 0; i < std::size(kSteps); ++i) {
    if (!t.contains(kSteps[i])) continue;
    if (what != nullptr) r.fail(t.source(), "a [[host]] is one step: {} or {}", what, kSteps[i]);
    what = kSteps[i];
    out.kind = static_cast<Kind>(i);
  }
  if (what == nullptr) {
    r.fail(t.source(), "a [[host]] is one step: {}", fmt::join(kSteps, ", "));
  }
  const toml::node& n = *t.get(what);
  if (out.kind == Kind::record) {
    out.event = r.text(n, "record");
  } else {
    const toml::table& s = r.table(n, what);
    switch (out.kind) {
      case Kind::memset:
        r.only(s, what, {"to", "bytes", "value"});
        out.to = read_place(r, s, "to", file.ranks);
        out.bytes = r.number(r.need(s, what, "bytes"), "bytes", 1, kMaxBytes);
        if (const auto* v = s.get("value")) {
          out.fill = static_cast<std::uint8_t>(r.number(*v, "value", 0, 255));
        }
        break;
      case Kind::copy:
        r.only(s, what, {"from", "to", "bytes"});
        out.from = read_place(r, s, "from", file.ranks);
        out.to = read_place(r, s, "to", file.ranks);
        out.bytes = r.number(r.need(s, what, "bytes"), "bytes", 1, kMaxBytes);
        break;
      case Kind::write:
        r.only(s, what, {"to", "u32", "u64", "fence"});
        out.to = read_place(r, s, "to", file.ranks);
        read_value(r, s, what, out);
        out.fence = read_flag(r, s, "fence", true);
        break;
      case Kind::wait:
        r.only(s, what, {"at", "u32", "u64", "compare", "flush"});
        out.to = read_place(r, s, "at", file.ranks);
        read_value(r, s, what, out);
        read_wait(r, s, out);
        break;
      default:
        r.only(s, what, {"event", "peer", "rank"});
        out.event = r.text(r.need(s, what, "event"), "event");
        if (const auto* p = s.get("peer")) {
          out.peer = static_cast<std::uint32_t>(r.number(*p, "peer", 1, kMaxRanks - 1));
        }
        if (const auto* p = s.get("rank")) {
          if (out.peer != 0) r.fail(p->source(), "an event: expected peer or rank, not both");
          out.of_rank = static_cast<std::uint32_t>(r.number(*p, "rank", 0, file.ranks - 1));
        }
    }
  }
  if (const auto* s = t.get("stream")) {
    out.stream = static_cast<std::uint32_t>(r.number(*s, "stream", 0, 15));
  }
  if (const auto* list = t.get("ranks")) {
    for (const toml::node& rank : r.array(*list, "ranks")) {
      out.ranks.push_back(static_cast<std::uint32_t>(r.number(rank, "ranks", 0, file.ranks - 1)));
    }
    if (out.ranks.empty()) r.fail(list->source(), "ranks is empty; leave it out for all");
  }
  return out;
}

}  // namespace ringfence::cases

// The reader of traces. Everything in the file is checked before anything runs: a trace comes from
// other people's machines and from other versions.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "emulator/machine/names.hpp"
#include "emulator/machine/policies.hpp"
#include "emulator/schedule/faults.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/trace/config_json.hpp"
#include "emulator/trace/fields.hpp"
#include "emulator/trace/names.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

namespace {

// A bound for what a pipe or a device may send: the longest recorded traces have a few MiB.
constexpr std::size_t kMostBytes = std::size_t{1} << 28;

constexpr std::array<std::string_view, 3> kVerdicts{"pass", "finding", "unknown"};

// The words that the machine names, in the order of their values.
template <class E, int N>
const std::array<std::string_view, N>& machine_words() {
  static const auto words = [] {
    std::array<std::string_view, N> w;
    for (int i = 0; i < N; ++i) w[i] = machine::name(static_cast<E>(i));
    return w;
  }();
  return words;
}

template <class E, int N>
E machine_word(Fields& f, const char* key) {
  return f.word_as<E>(key, machine_words<E, N>());
}

std::uint64_t label_from(const Fields& at, const std::string& text, std::uint32_t ranks) {
  schedule::AgentLabel label;
  try {
    label = schedule::parse_label(text);
  } catch (const std::exception&) {
    at.fail(fmt::format("unknown agent '{}'; agents are named like r1.c0.b2.t3 or r1.host",
                        text.substr(0, 40)));
  }
  if (label.rank >= ranks) {
    at.fail(fmt::format("agent '{}' is of rank {}, but the configuration has ranks 0 to {}", text,
                        label.rank, ranks - 1));
  }
  return schedule::pack(label);
}

std::uint64_t label_field(Fields& f, const char* key, std::uint32_t ranks) {
  return label_from(f, f.string(key), ranks);
}

Header read_header(Fields f) {
  Header h;
  // The version first: nothing else is known to mean the same in another one.
  if (f.has("ringfence-gpu-trace")) {
    f.fail(
        "a record of what GPUs did (ringfence gpu run --trace), which cannot be replayed: give a "
        "trace of run or fuzz");
  }
  if (!f.has("ringfence-trace")) {
    f.fail("not a trace: expected an object with the key 'ringfence-trace' in the first line");
  }
  const auto version = f.integer<std::uint32_t>("ringfence-trace");
  if (version != kVersion) {
    f.fail(fmt::format("trace version {}; this ringfence reads version {}", version, kVersion));
  }
  h.made_by = f.string("ringfence");
  h.config = read_config(f.object("config"), h.input_digest);
  h.policy.boundary = machine_word<machine::Boundary, 3>(f, "boundary");
  Fields policy = f.object("policy");
  for (const machine::NamedPolicy& p : machine::named_policies()) {
    if (p.name == "load-buffering") continue;  // of litmus alone, which has no traces
    // Those of kernels are left out where they are the usual ones.
    const char* const key = p.name.data();
    if (p.of_kernels && !policy.has(key)) continue;
    const auto end = std::find(p.words.begin(), p.words.end(), std::string_view{});
    p.set(h.policy, policy.word(key, {p.words.begin(), end}));
  }
  if (policy.has("registers")) h.policy.registers = policy.integer<std::uint32_t>("registers");
  policy.end();
  for (const nlohmann::json& kind : f.array("ignore")) {
    const auto parsed =
        kind.is_string() ? machine::parse_finding_kind(kind.get<std::string>()) : std::nullopt;
    if (!parsed) f.fail("'ignore' lists kinds of findings, such as data-race");
    h.ignore.push_back(*parsed);
  }
  h.strategy = f.string("strategy");
  h.seed = f.integer<std::uint64_t>("seed");
  h.executor = f.string("executor");
  if (f.has("survive")) h.survive = f.boolean("survive");
  if (f.has("faults")) {
    h.faults = f.string("faults");
    try {
      schedule::parse_faults(h.faults);
    } catch (const std::invalid_argument& e) {
      f.fail(fmt::format("'faults': {}", e.what()));
    }
  }
  f.end();
  return h;
}

// The value of a decision of this kind, which takes further keys for faults.
std::uint64_t read_value(Fields& f, schedule::DecisionKind kind, const char* key,
                         std::uint32_t ranks) {
  using schedule::DecisionKind;
  switch (kind) {
    case DecisionKind::pick:
      return label_field(f, key, ranks);
    case DecisionKind::fault: {
      schedule::StepFault fault;
      fault.kind = f.word_as<schedule::FaultKind>(key, kStepFaultWords);
      if (fault.kind >= schedule::FaultKind::pause) {
        fault.span = static_cast<std::uint32_t>(f.number("for", schedule::kMostSpan));
        if (fault.span == 0) f.fail("'for' is at least 1, not 0");
      }
      return schedule::encode(fault);
    }
    case DecisionKind::late: {
      const std::uint64_t span = f.number(key, schedule::kMostSpan);
      if (span == 0) f.fail("'late' is at least 1, not 0");
      return span;
    }
    case DecisionKind::dirty: {
      schedule::DirtyWord dirty;
      constexpr std::uint32_t kMostWords = 1u << 29;
      dirty.word = static_cast<std::uint32_t>(f.number(key, kMostWords));
      dirty.holds = f.integer<std::uint32_t>("holds");
      const auto value = schedule::encode(dirty);
      if (!value) f.fail("'holds' is 1, 2 or 4294967295");
      return *value;
    }
    default:
      return f.integer<std::uint64_t>(key);
  }
}

schedule::Decision read_decision(Fields f, std::uint32_t ranks) {
  schedule::Decision d;
  d.agent = label_field(f, "agent", ranks);
  d.point = f.integer<std::uint32_t>("point");
  if (f.has("nth")) d.nth = f.integer<std::uint32_t>("nth");
  std::size_t kinds = 0;
  for (std::size_t i = 0; i < kDecisionWords.size(); ++i) {
    const char* key = kDecisionWords[i].data();
    if (!f.has(key)) continue;
    ++kinds;
    d.kind = static_cast<schedule::DecisionKind>(i);
    if (kinds > 1) break;
    d.value = read_value(f, d.kind, key, ranks);
  }
  if (kinds != 1) {
    f.fail(
        fmt::format("a decision: expected exactly one of the keys {}", list_words(kDecisionWords)));
  }
  f.end();
  return d;
}

machine::AccessInfo read_side(Fields f, SideNames& names, std::uint32_t ranks) {
  machine::AccessInfo a;
  a.kind = f.word_as<machine::AccessKind>("access", kAccessWords);
  a.order = machine_word<machine::Order, machine::kAccessOrders>(f, "order");
  a.scope = machine_word<machine::Scope, machine::kScopes>(f, "scope");
  constexpr machine::Proxy kProxies[] = {machine::Proxy::generic, machine::Proxy::multicast,
                                         machine::Proxy::async, machine::Proxy::readonly};
  a.proxy = kProxies[f.word("proxy", kProxyWords)];
  a.label = label_field(f, "agent", ranks);
  a.step = f.integer<std::uint32_t>("step");
  a.site = f.integer<std::uint16_t>("site");
  names.line = f.string("line");
  a.region = f.integer<std::uint32_t>("region");
  a.offset = f.integer<std::uint64_t>("offset");
  a.bytes = f.integer<std::uint32_t>("bytes");
  names.place = f.string("place");
  f.end();
  return a;
}

void read_finding(Fields& f, Verdict& v, std::uint32_t ranks) {
  machine::Finding found;
  found.kind = machine_word<machine::FindingKind, machine::kFindingKinds>(f, "kind");
  found.missing = f.word_as<machine::Missing>("missing", kMissingWords);
  found.has_first = f.has("first");
  if (found.has_first) found.first = read_side(f.object("first"), v.first, ranks);
  found.has_second = f.has("second");
  if (found.has_second) found.second = read_side(f.object("second"), v.second, ranks);
  v.finding = found;
}

Verdict read_verdict(Fields f, std::uint32_t ranks) {
  Verdict v;
  const std::size_t verdict = f.word("verdict", kVerdicts);
  v.end = f.word_as<schedule::RunEnd>("end", kEndWords);
  if (verdict == 1) read_finding(f, v, ranks);
  v.message = f.string("message");
  if (f.has("stuck")) {
    for (const nlohmann::json& one : f.array("stuck")) {
      Fields s(f.where() + ": in 'stuck'", one);
      StuckNames stuck;
      stuck.label = label_field(s, "agent", ranks);
      stuck.slot = s.string("slot");
      stuck.needs = s.string("needs");
      stuck.there = s.integer<std::uint64_t>("there");
      stuck.writer = s.string("writer");
      s.end();
      v.stuck.push_back(stuck);
    }
  }
  v.points = f.integer<std::uint32_t>("points");
  v.steps = f.integer<std::uint32_t>("steps");
  v.digest = std::stoull(f.hex("digest"), nullptr, 16);
  f.end();
  return v;
}

}  // namespace

Trace parse(const std::string& file, std::string_view text) {
  Trace trace;
  std::size_t number = 0;
  bool verdict = false;
  while (!text.empty()) {
    ++number;
    const std::string where = fmt::format("{}:{}", file, number);
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      throw TraceError(where + ": the line does not end; the file is truncated");
    }
    if (verdict) throw TraceError(where + ": nothing may follow the verdict");
    const nlohmann::json line = parse_line(where, text.substr(0, end));
    text.remove_prefix(end + 1);
    Fields fields(where, line);
    if (number == 1) {
      trace.header = read_header(std::move(fields));
    } else if (fields.has("verdict")) {
      trace.verdict = read_verdict(std::move(fields), trace.header.config.ranks());
      verdict = true;
    } else {
      trace.decisions.push_back(read_decision(std::move(fields), trace.header.config.ranks()));
    }
  }
  if (number == 0) throw TraceError(file + ":1: the file is empty; a trace has at least two lines");
  if (!verdict) {
    throw TraceError(
        fmt::format("{}:{}: the last line is not a verdict; the file is truncated", file, number));
  }
  return trace;
}

Trace read_file(const std::string& path) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) {
    throw TraceError(fmt::format("{}: is a folder; expected a trace file", path));
  }
  std::ifstream in(path, std::ios::binary);
  std::string text, part(1 << 16, '\0');
  while (in.read(part.data(), static_cast<std::streamsize>(part.size())) || in.gcount() > 0) {
    text.append(part, 0, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostBytes) {
      throw TraceError(
          fmt::format("{}: more than {} MiB; no trace is that long", path, kMostBytes >> 20));
    }
  }
  if (!in.is_open() || in.bad()) {
    throw TraceError(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
  }
  return parse(path, text);
}

}  // namespace ringfence::trace

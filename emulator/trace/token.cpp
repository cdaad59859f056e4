#include "emulator/trace/token.hpp"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "emulator/machine/names.hpp"
#include "emulator/machine/policies.hpp"
#include "emulator/schedule/label.hpp"
#include "emulator/trace/config_json.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::trace {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWhere = "the token";
constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@";
constexpr std::string_view kSet = "set.", kDo = "do:";

std::string encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

[[noreturn]] void fail(const std::string& what) {
  throw TraceError(fmt::format("{}: {}", kWhere, what));
}

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || error != std::errc{} || end != digits.data() + 2) {
      fail(fmt::format("'{}' has a % without two hex digits", text.substr(0, 60)));
    }
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

std::string value_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// What a token's keys change: a configuration as it is, but for texts that have no usual value.
Configuration plain_of(const programs::Config& like) {
  programs::Config c;
  c.protocol = like.protocol;
  c.input = like.input;
  c.input_map = like.input_map;
  return c;
}
Configuration plain_of(const CaseConfig& like) {
  CaseConfig c;
  c.file = like.file;
  c.suppress = like.suppress;
  return c;
}
Configuration plain_of(const OwnConfig& like) {
  OwnConfig c;
  c.name = like.name;
  return c;
}

Json plain_config(const Configuration& like) {
  return config_json(std::visit([](const auto& c) { return plain_of(c); }, like.what()), "");
}

// A value as the default beside it has it: a number or a string.
Json typed(const std::string& text, const Json& like, std::string_view key) {
  if (!like.is_number()) return text;
  const Json value = Json::parse(text, nullptr, false);
  if (!value.is_number()) fail(fmt::format("'{}={}': expected a number", key, text.substr(0, 40)));
  return value;
}

std::pair<std::string_view, std::string_view> split(std::string_view item, char at) {
  const std::size_t n = item.find(at);
  if (n == std::string_view::npos || n == 0) {
    fail(fmt::format("'{}': expected KEY{}VALUE", item.substr(0, 60), at));
  }
  return {item.substr(0, n), item.substr(n + 1)};
}

std::uint64_t number(std::string_view text) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    fail(fmt::format("'{}': expected a number", text.substr(0, 40)));
  }
  return n;
}

// "r1.c0.b0.t0@14:pick=r0.c0.b0.t0", "...@3.1:read=1"
Json decision_of(std::string_view item) {
  const auto [who, rest] = split(item, '@');
  const auto [point, what] = split(rest, ':');
  const auto [kind, value] = split(what, '=');
  Json d{{"agent", std::string(who)}};
  const std::size_t dot = point.find('.');
  d["point"] = number(point.substr(0, dot));
  if (dot != std::string_view::npos) d["nth"] = number(point.substr(dot + 1));
  const std::string word(kind);
  if (word == name(schedule::DecisionKind::pick)) {
    d[word] = std::string(value);
  } else {
    d[word] = number(value);
  }
  return d;
}

}  // namespace

std::string to_token(const Trace& trace) {
  const Header& h = trace.header;
  std::string out(kTokenPrefix);
  out += encoded(h.config.name());
  const auto item = [&](std::string_view key, std::string_view value) {
    out += fmt::format(",{}={}", key, encoded(value));
  };
  const Json plain = plain_config(h.config);
  const Json config = config_json(h.config, h.input_digest);
  for (const auto& [key, value] : config.items()) {
    if (key == "protocol" || key == "set") continue;
    if (key != "case" && key != "input" && key != "input_map" && key != "suppress" &&
        plain.contains(key) && plain[key] == value)
      continue;
    item(key, value_text(value));
  }
  for (const auto& [key, value] : h.config.set()) item(std::string(kSet) + encoded(key), value);
  item("boundary", machine::name(h.policy.boundary));
  for (const char* const key : {"multicast-flag", "alias-data"}) {
    const std::string_view word = machine::policy_word(h.policy, key);
    if (word != machine::policy_word(machine::Policy{}, key)) item(key, std::string(word));
  }
  for (const auto& [name, value] : kernel_policies(h.policy)) item(name, value);
  for (const machine::FindingKind kind : h.ignore) item("ignore", machine::name(kind));
  if (trace.verdict.finding) item("kind", machine::name(trace.verdict.finding->kind));
  item("end", name(trace.verdict.end));
  item("digest", fmt::format("{:016x}", trace.verdict.digest));
  for (const schedule::Decision& d : trace.decisions) {
    out += fmt::format(",{}{}@{}", kDo, schedule::text(schedule::unpack(d.agent)), d.point);
    if (d.nth > 0) out += fmt::format(".{}", d.nth);
    out += fmt::format(":{}=", name(d.kind));
    out += d.kind == schedule::DecisionKind::pick ? schedule::text(schedule::unpack(d.value))
                                                  : std::to_string(d.value);
  }
  return out;
}

// The lines of the trace file that says the same, for the one reader there is.
Trace parse_token(std::string_view token) {
  token.remove_prefix(kTokenPrefix.size());
  std::vector<std::string_view> items;
  for (std::size_t at = 0; at <= token.size();) {
    const std::size_t comma = std::min(token.find(',', at), token.size());
    items.push_back(token.substr(at, comma - at));
    at = comma + 1;
  }
  programs::Config protocol;
  CaseConfig kernels;
  protocol.protocol = decoded(items.front());
  for (const std::string_view item : items) {
    if (item.starts_with("case=")) kernels.file = decoded(item.substr(5));
    if (item.starts_with("input=")) protocol.input = decoded(item.substr(6));
    if (item.starts_with("input_map=")) protocol.input_map = decoded(item.substr(10));
    if (item.starts_with("suppress=")) kernels.suppress = decoded(item.substr(9));
  }
  if (protocol.protocol == "case" && kernels.file.empty()) fail("a case without the key 'case'");
  Json config = kernels.file.empty() ? plain_config(protocol) : plain_config(kernels);
  Json policy;
  for (const char* const key : {"multicast-flag", "alias-data"}) {
    policy[key] = machine::policy_word(machine::Policy{}, key);
  }
  Json header{{"ringfence-trace", kVersion}, {"ringfence", "a token"}};
  Json ignore = Json::array(), set = Json::object(), verdict = Json::object();
  std::string decisions;
  for (std::size_t i = 1; i < items.size(); ++i) {
    const std::string_view item = items[i];
    if (item.starts_with(kDo)) {
      decisions += decision_of(item.substr(kDo.size())).dump() + '\n';
      continue;
    }
    const auto [key_text, value_encoded] = split(item, '=');
    const std::string key = decoded(key_text), value = decoded(value_encoded);
    if (key.starts_with(kSet)) {
      set[key.substr(kSet.size())] = value;
    } else if (key == "boundary") {
      header[key] = value;
    } else if (const machine::NamedPolicy* const p = machine::find_policy(key);
               p != nullptr && (p->of_kernels || policy.contains(key))) {
      policy[key] = value;
    } else if (key == "registers") {
      policy[key] = number(value);
    } else if (key == "ignore") {
      ignore.push_back(value);
    } else if (key == "kind" || key == "end" || key == "digest") {
      verdict[key] = value;
    } else if (config.contains(key)) {
      config[key] = typed(value, config[key], key);
    } else {
      fail(fmt::format("unknown key '{}'", key.substr(0, 40)));
    }
  }
  if (!set.empty() || config.contains("set")) config["set"] = set;
  header["config"] = config;
  header["policy"] = policy;
  header["ignore"] = ignore;
  header["strategy"] = "replay";
  header["seed"] = 0;
  header["executor"] = "inline";
  const bool finding = verdict.contains("kind");
  verdict["verdict"] = finding ? "finding" : "pass";
  if (finding) verdict["missing"] = name(machine::Missing::none);
  verdict["message"] = "";
  verdict["points"] = 0;
  verdict["steps"] = 0;
  const auto line = [](const Json& j) {
    return j.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  };
  return parse(kWhere, line(header) + decisions + line(verdict));
}

}  // namespace ringfence::trace

// What was run: as a line, as JSON, and out of JSON. What a kind of configuration has is said here
// once for each.
#include "emulator/trace/configuration.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "emulator/trace/config_json.hpp"
#include "emulator/trace/fields.hpp"
#include "emulator/trace/token.hpp"

namespace ringfence::trace {

namespace {

using Json = nlohmann::ordered_json;
using Set = std::map<std::string, std::string>;

const std::string kCase = "case", kProgram = "program";

// What an own program has no say in, as its record has it.
const programs::Config& plain() {
  static const programs::Config config;
  return config;
}

std::string set_text(const Set& set) {
  std::string text;
  for (const auto& [key, value] : set) text += fmt::format(", {}={}", key, value);
  return text;
}

std::string counted(std::uint32_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string text_of(const programs::Config& c) {
  std::string text =
      fmt::format("{}, {} x {}, {}, hidden {}, inner {}, {}, {}", c.protocol,
                  counted(c.ranks, "rank"), counted(c.blocks, "block"), counted(c.tokens, "token"),
                  c.hidden, c.inner, c.dtype, counted(c.calls, "call"));
  if (!c.input.empty()) text += ", " + c.input;
  return text + set_text(c.set);
}
std::string text_of(const CaseConfig& c) {
  return fmt::format("case {}, {}, {}{}", c.file, counted(c.ranks, "rank"),
                     counted(c.calls, "call"), set_text(c.set));
}
std::string text_of(const OwnConfig& c) {
  return fmt::format("{}, {}{}", c.name, counted(c.ranks, "rank"), set_text(c.set));
}

Json set_json(const Set& set) {
  Json j = Json::object();
  for (const auto& [key, value] : set) j[key] = value;
  return j;
}

Json json_of(const programs::Config& c) {
  Json j{{"protocol", c.protocol},
         {"ranks", c.ranks},
         {"tokens", c.tokens},
         {"hidden", c.hidden},
         {"inner", c.inner},
         {"blocks", c.blocks},
         {"calls", c.calls},
         {"dtype", c.dtype},
         {"eps", c.eps},
         {"payload", c.payload},
         {"payload_seed", c.payload_seed},
         {"summation", c.summation},
         {"set", set_json(c.set)}};
  if (!c.input.empty()) {
    j["input"] = c.input;
    if (!c.input_map.empty()) j["input_map"] = c.input_map;
  }
  return j;
}
Json json_of(const CaseConfig& c) {
  Json j{{kCase, c.file},    {"case_digest", c.digest},        {"ranks", c.ranks},
         {"calls", c.calls}, {"payload_seed", c.payload_seed}, {"summation", c.summation}};
  if (!c.set.empty()) j["set"] = set_json(c.set);
  if (!c.suppress.empty()) j["suppress"] = c.suppress;
  return j;
}
Json json_of(const OwnConfig& c) {
  Json j{{kProgram, c.name},
         {"ranks", c.ranks},
         {"calls", plain().calls},
         {"payload_seed", plain().payload_seed},
         {"summation", plain().summation}};
  if (!c.set.empty()) j["set"] = set_json(c.set);
  return j;
}

std::uint32_t read_ranks(Fields& f) {
  const auto ranks = f.integer<std::uint32_t>("ranks");
  if (ranks == 0) f.fail("'ranks' is at least 1, not 0");
  return ranks;
}

CaseConfig read_case(Fields& f) {
  CaseConfig c;
  c.file = f.string(kCase.c_str());
  c.digest = f.hex("case_digest");
  c.ranks = read_ranks(f);
  c.calls = f.integer<std::uint32_t>("calls");
  c.payload_seed = f.integer<std::uint64_t>("payload_seed");
  c.summation = f.string("summation");
  if (f.has("set")) c.set = f.object("set").strings();
  if (f.has("suppress")) c.suppress = f.string("suppress");
  return c;
}

OwnConfig read_own(Fields& f) {
  OwnConfig c;
  c.name = f.string(kProgram.c_str());
  if (c.name.empty()) f.fail("'program' is a name, not empty");
  c.ranks = read_ranks(f);
  f.integer<std::uint32_t>("calls");
  f.integer<std::uint64_t>("payload_seed");
  f.string("summation");
  if (f.has("set")) c.set = f.object("set").strings();
  return c;
}

programs::Config read_protocol(Fields& f, std::string& input_digest) {
  programs::Config c;
  c.protocol = f.string("protocol");
  c.ranks = read_ranks(f);
  c.tokens = f.integer<std::uint32_t>("tokens");
  c.hidden = f.integer<std::uint32_t>("hidden");
  c.inner = f.integer<std::uint32_t>("inner");
  c.blocks = f.integer<std::uint32_t>("blocks");
  c.calls = f.integer<std::uint32_t>("calls");
  c.dtype = f.string("dtype");
  c.eps = f.real("eps");
  c.payload = f.string("payload");
  c.payload_seed = f.integer<std::uint64_t>("payload_seed");
  c.summation = f.string("summation");
  c.set = f.object("set").strings();
  if (f.has("input")) {
    c.input = f.string("input");
    if (f.has("input_map")) c.input_map = f.string("input_map");
    input_digest = f.hex("input_digest");
  }
  return c;
}

// By kind.
template <class... F>
struct Each : F... {
  using F::operator()...;
};

}  // namespace

const std::string& Configuration::name() const {
  return std::visit(Each{[](const programs::Config& c) -> const std::string& { return c.protocol; },
                         [](const CaseConfig&) -> const std::string& { return kCase; },
                         [](const OwnConfig&) -> const std::string& { return kProgram; }},
                    what_);
}

std::uint32_t Configuration::ranks() const {
  return std::visit([](const auto& c) { return c.ranks; }, what_);
}

std::uint64_t Configuration::payload_seed() const {
  return std::visit(Each{[](const auto& c) { return c.payload_seed; },
                         [](const OwnConfig&) { return plain().payload_seed; }},
                    what_);
}

const std::string& Configuration::summation() const {
  return std::visit(Each{[](const auto& c) -> const std::string& { return c.summation; },
                         [](const OwnConfig&) -> const std::string& { return plain().summation; }},
                    what_);
}

const Set& Configuration::set() const {
  return std::visit([](const auto& c) -> const Set& { return c.set; }, what_);
}

bool Configuration::is_of(const Configuration& other) const {
  if (what_.index() != other.what_.index()) return false;
  if (const CaseConfig* const c = kernels()) return c->digest == other.kernels()->digest;
  if (const OwnConfig* const c = own()) return c->name == other.own()->name;
  return name() == other.name();
}

std::string case_text(const Configuration& config) {
  return std::visit([](const auto& c) { return text_of(c); }, config.what());
}

Json config_json(const Configuration& config, const std::string& input_digest) {
  Json j = std::visit([](const auto& c) { return json_of(c); }, config.what());
  if (j.contains("input")) j["input_digest"] = input_digest;
  return j;
}

Configuration read_config(Fields f, std::string& input_digest) {
  const auto whole = [&](auto config) -> Configuration {
    f.end();
    return config;
  };
  if (f.has(kProgram.c_str())) return whole(read_own(f));
  if (f.has(kCase.c_str())) return whole(read_case(f));
  return whole(read_protocol(f, input_digest));
}

}  // namespace ringfence::trace

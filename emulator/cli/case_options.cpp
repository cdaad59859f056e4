#include "emulator/cli/case_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "emulator/cli/case_program.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/models.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/machine/policies.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/trace.hpp"
#include "verify/inputs.hpp"

namespace ringfence::cli {

namespace {

using machine::Boundary;
constexpr Boundary kModes[] = {Boundary::strict, Boundary::stream, Boundary::coherent};

std::pair<std::string, std::string> key_value(const char* option, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError(fmt::format("{} {}: NAME=VALUE is due", option, text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

const programs::Protocol* find_protocol(const std::string& name) {
  for (const programs::Protocol& p : programs::protocols()) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

const programs::Protocol& protocol_of(const std::string& name) {
  if (const programs::Protocol* p = find_protocol(name)) return *p;
  std::vector<std::string> known;
  for (const programs::Protocol& p : programs::protocols()) known.push_back(p.name);
  throw UsageError(
      fmt::format("--protocol {}: unknown; there are {}", name, fmt::join(known, ", ")));
}

std::vector<machine::FindingKind> parse_ignore(const std::vector<std::string>& kinds) {
  std::vector<machine::FindingKind> out;
  for (const std::string& k : kinds) {
    const auto kind = machine::parse_finding_kind(k);
    if (!kind) {
      std::vector<std::string_view> known;
      for (int i = 0; i < machine::kFindingKinds; ++i) {
        known.push_back(machine::name(static_cast<machine::FindingKind>(i)));
      }
      throw UsageError(
          fmt::format("--ignore {}: unknown kind; there are {}", k, fmt::join(known, ", ")));
    }
    out.push_back(*kind);
  }
  return out;
}

// Sizes and dtype come from the file; giving them as well is only right if they agree.
void adopt_input(const CaseOptions& o, programs::Config& config) {
  const verify::LoadedInputs in =
      verify::load_inputs(config.input, verify::parse_input_names(config.input_map, "--map"));
  for (const std::string& note : in.notes) fmt::print(stderr, "{}\n", note);
  const auto adopt = [&](const CLI::Option* option, std::uint32_t& field, std::int64_t there,
                         const char* name) {
    if (there < 1 || there > std::numeric_limits<std::uint32_t>::max()) {
      throw UsageError(fmt::format("{}: {} is {}; 1 to {} fit", config.input, name, there,
                                   std::numeric_limits<std::uint32_t>::max()));
    }
    if (given(option) && field != there) {
      throw UsageError(fmt::format("--{} {}: {} has {}; leave the option out", name, field,
                                   config.input, there));
    }
    field = static_cast<std::uint32_t>(there);
  };
  adopt(o.tokens, config.tokens, in.tokens, "tokens");
  adopt(o.hidden, config.hidden, in.hidden, "hidden");
  adopt(o.inner, config.inner, in.inner, "inner");
  const std::string dtype = verify::dtype_name(in.dtype);
  if (given(o.dtype) && config.dtype != dtype) {
    throw UsageError(fmt::format("--dtype {}: {} has {}; leave the option out", config.dtype,
                                 config.input, dtype));
  }
  config.dtype = dtype;
  if (!given(o.eps)) config.eps = -1;  // the file's
}

void adopt_model(const CaseOptions& o, programs::Config& config) {
  const NamedShape shape = find_shape(o.model);
  if (!config.input.empty()) {
    throw UsageError("--model: not together with --input, whose file has the sizes");
  }
  if (!given(o.hidden)) config.hidden = shape.hidden;
  if (!given(o.inner)) config.inner = shape.inner;
  if (!given(o.eps)) config.eps = shape.eps;
}

}  // namespace

void apply_policy(const std::string& text, machine::Policy& policy, std::string& summation) {
  const auto [name, value] = key_value("--policy", text);
  if (name == "summation") {
    summation = value;
    return;
  }
  const machine::NamedPolicy* const known = machine::find_policy(name);
  if (known == nullptr) {
    std::string names;
    for (const machine::NamedPolicy& p : machine::named_policies()) {
      names += fmt::format("{}, ", p.name);
    }
    throw UsageError(fmt::format("--policy {}: unknown; there are {}and summation", name, names));
  }
  if (known->choose(policy, value)) return;
  std::string words{known->words[0]};
  for (std::size_t i = 1; i < known->words.size() && !known->words[i].empty(); ++i) {
    const bool last = i + 1 == known->words.size() || known->words[i + 1].empty();
    words += fmt::format("{}{}", last ? " or " : ", ", known->words[i]);
  }
  throw UsageError(fmt::format("--policy {}={}: {} is {}", name, value, name, words));
}

void refuse_kernel_policies(const machine::Policy& policy) {
  for (const auto& [name, value] : trace::kernel_policies(policy)) {
    throw UsageError(fmt::format("--{}{}: it is about compiled kernels; give one by --case",
                                 name == "registers" ? "" : "policy ", name));
  }
}

bool Case::claims(Boundary mode) const {
  return std::find(claimed.begin(), claimed.end(), mode) != claimed.end();
}

bool Case::judges(Boundary mode) const {
  return std::find(judged.begin(), judged.end(), mode) != judged.end();
}

Case resolve(const CaseOptions& o) {
  Case c;
  c.config = o.config;
  if (!o.model.empty() && !is_case(c.config)) adopt_model(o, c.config);
  if (is_case(c.config)) {
    for (const CLI::Option* option : o.no_case) {
      if (!given(option)) continue;
      throw UsageError(
          fmt::format("{}: not together with --case, whose file says so", name_of(option)));
    }
    c.claimed = read_case(c.config, given(o.calls));
  } else {
    c.claimed = protocol_of(c.config.protocol).claims;
  }
  if (!o.suppress.empty()) {
    if (!is_case(c.config)) {
      throw UsageError("--suppress: it is about compiled kernels; give one by --case");
    }
    c.config.suppress = read_suppressions(o.suppress);
  }
  for (const std::string& s : o.set) {
    const auto [key, value] = key_value("--set", s);
    if (!c.config.set.emplace(key, value).second) {
      throw UsageError(fmt::format("--set {}: given twice", key));
    }
  }
  for (const std::string& p : o.policy) apply_policy(p, c.policy, c.config.summation);
  c.policy.registers = o.registers;
  if (!is_case(c.config)) refuse_kernel_policies(c.policy);
  if (c.policy.load_buffering != machine::LoadBuffering::off) {
    throw UsageError(
        "--policy load-buffering=on: off is due; what depends on what in a kernel is not known, so "
        "'ringfence litmus' alone explores load buffering");
  }
  c.ignore = parse_ignore(o.ignore);
  if (o.boundary == "all") {
    c.modes.assign(std::begin(kModes), std::end(kModes));
    c.judged = c.claimed;
  } else if (const auto mode = machine::parse_boundary(o.boundary)) {
    c.modes = c.judged = {*mode};
  } else {
    throw UsageError(
        fmt::format("--boundary {}: strict, stream, coherent or all is due", o.boundary));
  }
  if (given(o.eps) && !(std::isfinite(c.config.eps) && c.config.eps >= 0)) {
    throw UsageError(fmt::format("--eps {}: a finite number of at least 0 is due", c.config.eps));
  }
  if (c.config.input.empty() && !c.config.input_map.empty()) {
    throw UsageError("--map: without --input there are no tensors to name");
  }
  if (!c.config.input.empty()) {
    adopt_input(o, c.config);
    c.input_digest = trace::file_digest(c.config.input);
  }
  check_config(c.config);
  return c;
}

void check_input(const programs::Config& config, const std::string& recorded_digest) {
  if (config.input.empty()) return;
  const std::string digest = trace::file_digest(config.input);
  if (digest != recorded_digest) {
    throw UsageError(fmt::format("{}: its content (digest {}) is not that of the trace ({})",
                                 config.input, digest, recorded_digest));
  }
}

std::string command_options(const programs::Config& c) {
  const programs::Config d;
  std::string text = is_case(c) ? "--case " + c.case_file : "--protocol " + c.protocol;
  const auto number = [&](const char* name, auto value, auto usual) {
    if (value != usual) text += fmt::format(" --{} {}", name, value);
  };
  if (is_case(c)) {
    number("calls", c.calls, 0u);
    number("payload-seed", c.payload_seed, d.payload_seed);
    for (const auto& [key, value] : c.set) text += fmt::format(" --set {}={}", key, value);
    if (c.summation != d.summation) text += " --policy summation=" + c.summation;
    if (!c.suppress.empty()) text += " --suppress FILE";
    return text;
  }
  number("ranks", c.ranks, d.ranks);
  if (c.input.empty()) {
    number("tokens", c.tokens, d.tokens);
    number("hidden", c.hidden, d.hidden);
    number("inner", c.inner, d.inner);
    if (c.dtype != d.dtype) text += " --dtype " + c.dtype;
    number("payload", c.payload, d.payload);
    number("payload-seed", c.payload_seed, d.payload_seed);
  } else {
    text += " --input " + c.input;
    if (!c.input_map.empty()) text += " --map " + c.input_map;
  }
  number("blocks", c.blocks, d.blocks);
  number("calls", c.calls, d.calls);
  if (c.eps >= 0) number("eps", c.eps, d.eps);
  for (const auto& [key, value] : c.set) text += fmt::format(" --set {}={}", key, value);
  if (c.summation != d.summation) text += " --policy summation=" + c.summation;
  return text;
}

}  // namespace ringfence::cli

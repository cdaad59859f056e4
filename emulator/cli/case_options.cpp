#include "emulator/cli/case_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "emulator/analysis/input.hpp"
#include "emulator/cli/errors.hpp"
#include "emulator/cli/models.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/trace.hpp"

namespace ringfence::cli {

namespace {

using machine::Boundary;

const programs::Protocol* find_protocol(const std::string& name) {
  for (const programs::Protocol& p : programs::protocols()) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

// Sizes and dtype come from the file; giving them as well is only right if they agree.
void adopt_input_of(const CaseOptions& o, programs::Config& config) {
  const programs::Config asked = config;
  for (const std::string& note : adopt_input(config)) fmt::print(stderr, "{}\n", note);
  const auto agree = [&](const CLI::Option* option, const char* name, const auto& given_value,
                         const auto& there) {
    if (!given(option) || given_value == there) return;
    throw UsageError(fmt::format("--{} {}: {} has {}; leave the option out", name, given_value,
                                 config.input, there));
  };
  agree(o.tokens, "tokens", asked.tokens, config.tokens);
  agree(o.hidden, "hidden", asked.hidden, config.hidden);
  agree(o.inner, "inner", asked.inner, config.inner);
  agree(o.dtype, "dtype", asked.dtype, config.dtype);
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

const programs::Protocol& protocol_of(const std::string& name) {
  if (const programs::Protocol* p = find_protocol(name)) return *p;
  std::vector<std::string> known;
  for (const programs::Protocol& p : programs::protocols()) known.push_back(p.name);
  throw UsageError(
      fmt::format("--protocol {}: unknown; expected one of {}", name, fmt::join(known, ", ")));
}

namespace {

Settings settings_of(const CaseOptions& o) {
  Settings set;
  for (const std::string& s : o.set) {
    const auto [key, value] = key_value("--set", s);
    if (!set.emplace(key, value).second) {
      throw UsageError(fmt::format("--set {}: given twice", key));
    }
  }
  return set;
}

// The policies of both kinds; the one of sums goes to `summation`.
void take_policies(const CaseOptions& o, bool kernels, Task& c, std::string& summation) {
  for (const std::string& p : o.policy) apply_policy(p, c.policy, summation);
  c.policy.registers = o.registers;
  if (!kernels) refuse_kernel_policies(c.policy);
  if (c.policy.load_buffering != machine::LoadBuffering::off) {
    throw UsageError(
        "--policy load-buffering=on: expected off; what depends on what in a kernel is not known, "
        "so "
        "'ringfence litmus' alone explores load buffering");
  }
}

// What is passed over, and the modes that are tried and judged.
void take_judgement(const CaseOptions& o, Task& c) {
  c.ignore = parse_ignore(o.ignore);
  if (o.boundary == "all") {
    c.modes = all_modes();
    c.judged = c.claimed;
  } else if (const auto mode = machine::parse_boundary(o.boundary)) {
    c.modes = c.judged = {*mode};
  } else {
    throw UsageError(
        fmt::format("--boundary {}: expected strict, stream, coherent or all", o.boundary));
  }
}

void refuse_map(const CaseOptions& o) {
  if (o.config.input_map.empty()) return;
  throw UsageError("--map: without --input there are no tensors to name");
}

Task resolve_case(const CaseOptions& o) {
  for (const CLI::Option* option : o.no_case) {
    if (!given(option)) continue;
    throw UsageError(
        fmt::format("{}: not together with --case, whose file determines it", name_of(option)));
  }
  note_case();
  Task c;
  trace::CaseConfig config;
  config.file = o.case_file;
  config.calls = o.config.calls;
  config.payload_seed = o.config.payload_seed;
  config.summation = o.config.summation;
  c.claimed = read_case(config, given(o.calls));
  if (!o.suppress.empty()) config.suppress = read_suppressions(o.suppress);
  config.set = settings_of(o);
  take_policies(o, true, c, config.summation);
  take_judgement(o, c);
  refuse_map(o);
  c.subject = make_subject(config);
  return c;
}

Task resolve_protocol(const CaseOptions& o) {
  Task c;
  programs::Config config = o.config;
  if (!o.model.empty()) adopt_model(o, config);
  c.claimed = protocol_of(config.protocol).claims;
  if (!o.suppress.empty()) {
    throw UsageError("--suppress: applies only to compiled kernels; expected --case");
  }
  config.set = settings_of(o);
  take_policies(o, false, c, config.summation);
  take_judgement(o, c);
  if (given(o.eps) && !(std::isfinite(config.eps) && config.eps >= 0)) {
    throw UsageError(fmt::format("--eps {}: expected a finite number of at least 0", config.eps));
  }
  if (config.input.empty()) {
    refuse_map(o);
  } else {
    adopt_input_of(o, config);
    c.input_digest = trace::file_digest(config.input);
  }
  c.subject = make_subject(config);
  return c;
}

// The options that both kinds take.
std::string settings_text(const trace::Configuration& c) {
  std::string text;
  for (const auto& [key, value] : c.set()) text += fmt::format(" --set {}={}", key, value);
  if (c.summation() != programs::Config{}.summation) {
    text += " --policy summation=" + c.summation();
  }
  return text;
}

template <class T>
void number(std::string& text, const char* name, const T& value, const T& usual) {
  if (value != usual) text += fmt::format(" --{} {}", name, value);
}

std::string options_of(const trace::CaseConfig& c) {
  std::string text = "--case " + c.file;
  number(text, "calls", c.calls, 0u);
  number(text, "payload-seed", c.payload_seed, trace::CaseConfig{}.payload_seed);
  text += settings_text(c);
  if (!c.suppress.empty()) text += " --suppress FILE";
  return text;
}

std::string options_of(const programs::Config& c) {
  const programs::Config d;
  std::string text = "--protocol " + c.protocol;
  number(text, "ranks", c.ranks, d.ranks);
  if (c.input.empty()) {
    number(text, "tokens", c.tokens, d.tokens);
    number(text, "hidden", c.hidden, d.hidden);
    number(text, "inner", c.inner, d.inner);
    number(text, "dtype", c.dtype, d.dtype);
    number(text, "payload", c.payload, d.payload);
    number(text, "payload-seed", c.payload_seed, d.payload_seed);
  } else {
    text += " --input " + c.input;
    if (!c.input_map.empty()) text += " --map " + c.input_map;
  }
  number(text, "blocks", c.blocks, d.blocks);
  number(text, "calls", c.calls, d.calls);
  if (c.eps >= 0) number(text, "eps", c.eps, d.eps);
  return text + settings_text(c);
}

// No command line has it.
std::string options_of(const trace::OwnConfig&) { return {}; }

}  // namespace

Task resolve(const CaseOptions& o) {
  return o.case_file.empty() ? resolve_protocol(o) : resolve_case(o);
}

std::string command_options(const trace::Configuration& config) {
  return std::visit([](const auto& c) { return options_of(c); }, config.what());
}

}  // namespace ringfence::cli

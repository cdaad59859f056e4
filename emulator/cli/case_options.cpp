#include "emulator/cli/case_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "emulator/cli/errors.hpp"
#include "emulator/cli/models.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/trace/story.hpp"
#include "emulator/trace/trace.hpp"
#include "verify/inputs.hpp"

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

const programs::Protocol& protocol_of(const std::string& name) {
  if (const programs::Protocol* p = find_protocol(name)) return *p;
  std::vector<std::string> known;
  for (const programs::Protocol& p : programs::protocols()) known.push_back(p.name);
  throw UsageError(
      fmt::format("--protocol {}: unknown; expected one of {}", name, fmt::join(known, ", ")));
}

Task resolve(const CaseOptions& o) {
  Task c;
  programs::Config config = o.config;
  if (!o.model.empty() && !is_case(config)) adopt_model(o, config);
  if (is_case(config)) {
    for (const CLI::Option* option : o.no_case) {
      if (!given(option)) continue;
      throw UsageError(
          fmt::format("{}: not together with --case, whose file determines it", name_of(option)));
    }
    note_case();
    c.claimed = read_case(config, given(o.calls));
  } else {
    c.claimed = protocol_of(config.protocol).claims;
  }
  if (!o.suppress.empty()) {
    if (!is_case(config)) {
      throw UsageError("--suppress: applies only to compiled kernels; expected --case");
    }
    config.suppress = read_suppressions(o.suppress);
  }
  for (const std::string& s : o.set) {
    const auto [key, value] = key_value("--set", s);
    if (!config.set.emplace(key, value).second) {
      throw UsageError(fmt::format("--set {}: given twice", key));
    }
  }
  for (const std::string& p : o.policy) apply_policy(p, c.policy, config.summation);
  c.policy.registers = o.registers;
  if (!is_case(config)) refuse_kernel_policies(c.policy);
  if (c.policy.load_buffering != machine::LoadBuffering::off) {
    throw UsageError(
        "--policy load-buffering=on: expected off; what depends on what in a kernel is not known, "
        "so "
        "'ringfence litmus' alone explores load buffering");
  }
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
  if (given(o.eps) && !(std::isfinite(config.eps) && config.eps >= 0)) {
    throw UsageError(fmt::format("--eps {}: expected a finite number of at least 0", config.eps));
  }
  if (config.input.empty() && !config.input_map.empty()) {
    throw UsageError("--map: without --input there are no tensors to name");
  }
  if (!config.input.empty()) {
    adopt_input(o, config);
    c.input_digest = trace::file_digest(config.input);
  }
  c.subject = make_subject(config);
  return c;
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

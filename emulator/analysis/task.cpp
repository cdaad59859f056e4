#include "emulator/analysis/task.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "emulator/analysis/errors.hpp"
#include "emulator/machine/names.hpp"
#include "emulator/machine/policies.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::analysis {

std::pair<std::string, std::string> key_value(const char* option, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError(fmt::format("{} {}: expected NAME=VALUE", option, text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
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
      throw InputError(
          fmt::format("--ignore {}: unknown kind; expected one of {}", k, fmt::join(known, ", ")));
    }
    out.push_back(*kind);
  }
  return out;
}

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
    throw InputError(
        fmt::format("--policy {}: unknown; expected one of {}and summation", name, names));
  }
  if (known->choose(policy, value)) return;
  std::string words{known->words[0]};
  for (std::size_t i = 1; i < known->words.size() && !known->words[i].empty(); ++i) {
    const bool last = i + 1 == known->words.size() || known->words[i + 1].empty();
    words += fmt::format("{}{}", last ? " or " : ", ", known->words[i]);
  }
  throw InputError(fmt::format("--policy {}={}: {} is {}", name, value, name, words));
}

void refuse_kernel_policies(const machine::Policy& policy) {
  for (const auto& [name, value] : trace::kernel_policies(policy)) {
    throw InputError(fmt::format("--{}{}: applies only to compiled kernels; expected --case",
                                 name == "registers" ? "" : "policy ", name));
  }
}

bool Task::claims(machine::Boundary mode) const {
  return std::find(claimed.begin(), claimed.end(), mode) != claimed.end();
}

bool Task::judges(machine::Boundary mode) const {
  return std::find(judged.begin(), judged.end(), mode) != judged.end();
}

std::vector<machine::Boundary> all_modes() {
  using machine::Boundary;
  return {Boundary::strict, Boundary::stream, Boundary::coherent};
}

schedule::RunSpec run_spec(const Task& task, machine::Boundary mode) {
  schedule::RunSpec spec;
  spec.policy = task.policy;
  spec.policy.boundary = mode;
  spec.ignore = task.ignore;
  spec.strategy.faults = task.faults;
  spec.survive = task.survive;
  return spec;
}

const char* name(Verdict v) {
  switch (v) {
    case Verdict::pass:
      return "pass";
    case Verdict::finding:
      return "finding";
    case Verdict::unknown:
      return "unknown";
    case Verdict::error:
      return "error";
  }
  return "";
}

}  // namespace ringfence::analysis

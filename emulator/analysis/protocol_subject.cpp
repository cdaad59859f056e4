// A protocol of emulator/programs as a subject: its switches, its sizes, the operator it computes.
#include <algorithm>
#include <utility>

#include "emulator/analysis/memory.hpp"
#include "emulator/analysis/operator_results.hpp"
#include "emulator/analysis/subject.hpp"
#include "emulator/programs/switches.hpp"

namespace ringfence::analysis {

namespace {

using programs::Config;
using programs::OperatorProgram;

// 1, half, one less, as far as they are smaller and at least `least`.
std::vector<std::uint32_t> smaller(std::uint32_t n, std::uint32_t least,
                                   std::uint32_t multiple = 1) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t v : {least, n / 2 / multiple * multiple, n > multiple ? n - multiple : n}) {
    if (v >= least && v < n && std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
  }
  return out;
}

// make_program makes no other.
const OperatorProgram& operator_of(const schedule::Program& program) {
  return static_cast<const OperatorProgram&>(program);
}

class ProtocolSubject final : public RecordedAs<Config> {
 public:
  explicit ProtocolSubject(Config config) : RecordedAs(std::move(config)) {}
  // Read, and found legal.
  ProtocolSubject(Config config, std::unique_ptr<const programs::Prepared> prepared)
      : RecordedAs(std::move(config)), prepared_(std::move(prepared)) {}

  std::vector<machine::Boundary> claims() const override {
    for (const programs::Protocol& p : programs::protocols()) {
      if (p.name == record().protocol) return p.claims;
    }
    return {};
  }
  std::string input_file() const override { return record().input; }
  std::uint64_t payload_bytes() const override { return analysis::payload_bytes(record()); }

  std::unique_ptr<schedule::Program> make_program() const override {
    return prepared_ != nullptr ? prepared_->make_program() : programs::make_program(record());
  }

  std::vector<Step> weaker() const override {
    std::vector<Step> out;
    for (programs::Weakening& w : programs::weakenings(record().protocol, record().set)) {
      out.push_back({w.key, w.from, w.to, {}});
    }
    return out;
  }

  std::vector<Step> stronger() const override {
    std::vector<Step> out;
    for (programs::Strengthening& s : programs::strengthenings(record().protocol, record().set)) {
      out.push_back({s.key, s.from, s.to, {}});
    }
    return out;
  }

  SubjectPtr with(const Settings& set) const override {
    Config changed = record();
    changed.set = set;
    return std::make_shared<ProtocolSubject>(std::move(changed));
  }

  SubjectPtr like(const trace::Configuration& recorded) const override {
    return make_protocol_subject(std::get<Config>(recorded.what()));
  }

  std::vector<SubjectPtr> smaller() const override {
    std::vector<SubjectPtr> out;
    for (Config& c : smaller_configs(record())) {
      out.push_back(std::make_shared<ProtocolSubject>(std::move(c)));
    }
    return out;
  }

  std::vector<verify::Comparison> compare(const schedule::Program& program) const override {
    return compare_results(operator_of(program));
  }
  ReplicaCheck replicas(const schedule::Program& program) const override {
    return check_replicas(operator_of(program));
  }
  verify::Safetensors tensors(const schedule::Program& program) const override {
    return result_tensors(operator_of(program), record());
  }

 private:
  std::unique_ptr<const programs::Prepared> prepared_;  // null: nobody has read its switches yet
};

}  // namespace

std::vector<Config> smaller_configs(const Config& config) {
  std::vector<Config> out;
  const auto add = [&](auto change) {
    Config c = config;
    change(c);
    out.push_back(std::move(c));
  };
  for (std::uint32_t n : smaller(config.calls, 1)) add([&](Config& c) { c.calls = n; });
  const bool generated = config.input.empty();
  for (std::uint32_t n : smaller(config.ranks, 2)) {
    if (generated && config.tokens % config.ranks == 0) {
      add([&](Config& c) {
        c.ranks = n;
        c.tokens = config.tokens / config.ranks * n;
      });
    }
    add([&](Config& c) { c.ranks = n; });
  }
  for (std::uint32_t n : smaller(config.blocks, 1)) add([&](Config& c) { c.blocks = n; });
  if (!generated) return out;  // the file has the sizes
  for (std::uint32_t n : smaller(config.tokens, config.ranks, config.ranks)) {
    add([&](Config& c) { c.tokens = n; });
  }
  for (std::uint32_t n : smaller(config.tokens, 1)) add([&](Config& c) { c.tokens = n; });
  for (std::uint32_t n : smaller(config.hidden, 8, 8)) add([&](Config& c) { c.hidden = n; });
  for (std::uint32_t n : smaller(config.inner, config.ranks, config.ranks)) {
    add([&](Config& c) { c.inner = n; });
  }
  return out;
}

SubjectPtr make_protocol_subject(const Config& config) {
  return std::make_shared<ProtocolSubject>(config, programs::prepare(config));
}

}  // namespace ringfence::analysis

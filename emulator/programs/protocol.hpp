#pragma once
// What a protocol is to the rest of the program. Each is defined in one file of protocols/, which
// has its switches too, and stands in one list: protocols.cpp.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/programs/config.hpp"
#include "emulator/programs/switches.hpp"
#include "verify/problem.hpp"

namespace ringfence::programs {

struct ProtocolDefinition {
  const char* name;
  const char* summary;
  std::vector<machine::Boundary> claims;  // the boundary modes it is meant for
  verify::Flavour flavour;                // of the operator: its sharding, norm and reference
  bool fp32;                              // it moves fp32 too
  SwitchList (*switches)();               // bound to values of their own, to the letter
  // Reads the switches. Throws std::invalid_argument for those that are not to be had.
  std::unique_ptr<const Prepared> (*prepare)(const Config& config);
};

// All that can be named, in the order of --help.
const std::vector<ProtocolDefinition>& definitions();
// Throws std::invalid_argument with the names that are known.
const ProtocolDefinition& definition_of(const std::string& protocol);

// Program(config, values), where `Values` are the protocol's switches: list(SwitchList&) and
// check(config, problem).
template <class Program, class Values>
class PreparedProtocol final : public Prepared {
 public:
  explicit PreparedProtocol(const Config& config)
      : config_(config), values_(parse_switches<Values>(config.protocol, config.set)) {}
  void check(const verify::Problem& problem) const override { values_.check(config_, problem); }

 protected:
  std::unique_ptr<OperatorProgram> make() const override {
    return std::make_unique<Program>(config_, values_);
  }

 private:
  const Config config_;
  const Values values_;
};

template <class Program, class Values>
ProtocolDefinition define_protocol(const char* name, const char* summary,
                                   std::vector<machine::Boundary> claims,
                                   verify::Flavour flavour = verify::Flavour::tokenweave,
                                   bool fp32 = false) {
  return {name,
          summary,
          std::move(claims),
          flavour,
          fp32,
          SwitchList::of<Values>,
          [](const Config& config) -> std::unique_ptr<const Prepared> {
            return std::make_unique<PreparedProtocol<Program, Values>>(config);
          }};
}

}  // namespace ringfence::programs

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "emulator/machine/names.hpp"
#include "emulator/programs/protocol.hpp"

// All protocols, in the order of --help: a new one is its file in protocols/ and a line here.
#define RINGFENCE_PROTOCOLS(X) \
  X(tokenweave)                \
  X(pypto)                     \
  X(cas_slots)                 \
  X(epoch_inbox)               \
  X(multimem_counter)          \
  X(flag_two_shot)             \
  X(counter_two_shot)          \
  X(mod3_flag)                 \
  X(lamport)                   \
  X(put_notify)

namespace ringfence::programs {

#define RINGFENCE_DECLARE(name) ProtocolDefinition name();
RINGFENCE_PROTOCOLS(RINGFENCE_DECLARE)
#undef RINGFENCE_DECLARE

const std::vector<ProtocolDefinition>& definitions() {
#define RINGFENCE_DEFINITION(name) name(),
  static const std::vector<ProtocolDefinition> all = {RINGFENCE_PROTOCOLS(RINGFENCE_DEFINITION)};
#undef RINGFENCE_DEFINITION
  return all;
}

const ProtocolDefinition& definition_of(const std::string& protocol) {
  const auto& all = definitions();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const ProtocolDefinition& d) { return d.name == protocol; });
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const ProtocolDefinition& d : all) names.emplace_back(d.name);
  throw std::invalid_argument(
      fmt::format("--protocol {}: expected {}", protocol, fmt::join(names, " or ")));
}

const std::vector<Protocol>& protocols() {
  static const std::vector<Protocol> all = [] {
    std::vector<Protocol> out;
    for (const ProtocolDefinition& d : definitions()) {
      Protocol p{d.name, d.summary, {}, d.claims};
      const SwitchList switches = d.switches();
      for (const Switch& s : switches.all()) {
        p.switches.push_back({s.key, s.words,
                              s.order != nullptr   ? std::string(machine::name(*s.order))
                              : s.scope != nullptr ? std::string(machine::name(*s.scope))
                                                   : ""});
      }
      out.push_back(std::move(p));
    }
    return out;
  }();
  return all;
}

}  // namespace ringfence::programs

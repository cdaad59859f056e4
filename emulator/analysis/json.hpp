#pragma once
// A configuration and its policies as results and campaigns write them.

#include <nlohmann/json_fwd.hpp>

#include "emulator/machine/policy.hpp"
#include "emulator/trace/configuration.hpp"

namespace ringfence::analysis {

using Json = nlohmann::ordered_json;

Json config_json(const trace::Configuration& config);
Json policy_json(const machine::Policy& policy, const trace::Configuration& config);

}  // namespace ringfence::analysis

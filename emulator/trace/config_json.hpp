#pragma once
// The header's configuration, for the writers of traces and of tokens.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "emulator/programs/config.hpp"

namespace ringfence::trace {

nlohmann::ordered_json config_json(const programs::Config& config, const std::string& input_digest);

}  // namespace ringfence::trace

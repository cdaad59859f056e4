#pragma once
// The header's configuration, for the writers of traces and of tokens, and for the reader.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "emulator/trace/configuration.hpp"

namespace ringfence::trace {

class Fields;

nlohmann::ordered_json config_json(const Configuration& config, const std::string& input_digest);
// `input_digest` is left alone where there is no input file.
Configuration read_config(Fields fields, std::string& input_digest);

}  // namespace ringfence::trace

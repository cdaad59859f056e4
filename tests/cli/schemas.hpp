#pragma once
// Validates JSON by the published schemas, in a process of python3-jsonschema.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ringfence::cli {

// Where it is false, a test says "not run" and returns.
bool have_validator();

// What is wrong with `document` by docs/schema/SCHEMA.schema.json; empty if nothing. The tests run
// in the tree's root.
std::string wrong(const std::string& schema, const nlohmann::json& document);

}  // namespace ringfence::cli

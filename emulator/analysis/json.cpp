#include "emulator/analysis/json.hpp"

#include <nlohmann/json.hpp>

#include "emulator/machine/policies.hpp"
#include "emulator/trace/config_json.hpp"
#include "emulator/trace/story.hpp"

namespace ringfence::analysis {

Json config_json(const trace::Configuration& c) {
  Json j = trace::config_json(c, "");
  j.erase("input_digest");                                    // the file was not read for this
  if (j.contains("eps") && j["eps"] < 0) j["eps"] = nullptr;  // the input file's
  return j;
}

Json policy_json(const machine::Policy& p, const trace::Configuration& c) {
  Json j{{"multicast-flag", machine::policy_word(p, "multicast-flag")},
         {"alias-data", machine::policy_word(p, "alias-data")},
         {"load-buffering", "off"},
         {"summation", c.summation()}};
  for (const auto& [name, value] : trace::kernel_policies(p)) j[name] = value;
  return j;
}

}  // namespace ringfence::analysis

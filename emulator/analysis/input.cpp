#include "emulator/analysis/input.hpp"

#include <fmt/format.h>

#include <limits>

#include "emulator/analysis/errors.hpp"
#include "verify/inputs.hpp"

namespace ringfence::analysis {

std::vector<std::string> adopt_input(programs::Config& config) {
  verify::LoadedInputs in =
      verify::load_inputs(config.input, verify::parse_input_names(config.input_map, "--map"));
  constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();
  const auto adopt = [&](std::uint32_t& field, std::int64_t there, const char* name) {
    if (there < 1 || there > kMost) {
      throw InputError(fmt::format("{}: {} is {}; 1 to {} fit", config.input, name, there, kMost));
    }
    field = static_cast<std::uint32_t>(there);
  };
  adopt(config.tokens, in.tokens, "tokens");
  adopt(config.hidden, in.hidden, "hidden");
  adopt(config.inner, in.inner, "inner");
  config.dtype = verify::dtype_name(in.dtype);
  return std::move(in.notes);
}

}  // namespace ringfence::analysis

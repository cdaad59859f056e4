#include "emulator/programs/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "emulator/programs/payload.hpp"
#include "emulator/programs/pypto.hpp"
#include "emulator/programs/switches.hpp"
#include "emulator/programs/tokenweave.hpp"
#include "verify/error.hpp"

namespace ringfence::programs {

namespace {

using machine::Boundary;

// Limits of an agent's label.
constexpr std::uint32_t kMaxCalls = 4096;
constexpr std::uint32_t kMaxBlocks = 32768;

// verify's complaints name the option too.
template <class F>
auto as_invalid_argument(F&& f) {
  try {
    return f();
  } catch (const verify::InputError& e) {
    throw std::invalid_argument(e.what());
  }
}

}  // namespace

const std::vector<Protocol>& protocols() {
  static const std::vector<Protocol> all = {
      {"tokenweave",
       "reduce-scatter, residual add, RMSNorm and all-gather in one pass over multicast memory",
       switch_names("tokenweave"),
       {Boundary::coherent}},
      {"pypto",
       "push with atomic add into the peers' tiles, then the norm: a task graph over symmetric "
       "memory",
       switch_names("pypto"),
       {Boundary::strict, Boundary::stream, Boundary::coherent}},
  };
  return all;
}

void validate(const Config& config) {
  const auto& all = protocols();
  const auto found = [&] {
    for (const Protocol& p : all) {
      if (p.name == config.protocol) return true;
    }
    return false;
  }();
  if (!found) {
    std::vector<std::string> names;
    for (const Protocol& p : all) names.push_back(p.name);
    throw std::invalid_argument(
        fmt::format("--protocol {}: {} is due", config.protocol, fmt::join(names, " or ")));
  }
  const auto in_range = [](const char* option, std::uint32_t value, std::uint32_t most) {
    if (value < 1 || value > most) {
      throw std::invalid_argument(fmt::format("{} {}: 1 to {} is due", option, value, most));
    }
  };
  in_range("--calls", config.calls, kMaxCalls);
  in_range("--blocks", config.blocks, kMaxBlocks);
  const Switches switches = parse_switches(config.protocol, config.set);
  as_invalid_argument([&] {
    if (config.input.empty()) parse_payload(config.payload);
    verify::parse_summation(config.summation);
    const verify::Problem problem = read_problem(config, nullptr);
    if (config.protocol == "pypto") {
      PyPto::check_tiles(problem, switches);
    } else {
      TokenWeave::check_blocks(config.blocks, switches);
    }
    return 0;
  });
}

std::unique_ptr<schedule::Program> make_program(const Config& config) {
  validate(config);
  return as_invalid_argument([&]() -> std::unique_ptr<schedule::Program> {
    if (config.protocol == "pypto") return std::make_unique<PyPto>(config);
    return std::make_unique<TokenWeave>(config);
  });
}

}  // namespace ringfence::programs

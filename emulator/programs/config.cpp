#include "emulator/programs/config.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "emulator/programs/operator_program.hpp"
#include "emulator/programs/payload.hpp"
#include "emulator/programs/protocol.hpp"
#include "verify/error.hpp"

namespace ringfence::programs {

namespace {

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

std::unique_ptr<const Prepared> prepare(const Config& config) {
  const ProtocolDefinition& protocol = definition_of(config.protocol);
  const auto in_range = [](const char* option, std::uint32_t value, std::uint32_t most) {
    if (value < 1 || value > most) {
      throw std::invalid_argument(fmt::format("{} {}: expected 1 to {}", option, value, most));
    }
  };
  in_range("--calls", config.calls, kMaxCalls);
  in_range("--blocks", config.blocks, kMaxBlocks);
  auto prepared = protocol.prepare(config);
  as_invalid_argument([&] {
    if (config.input.empty()) parse_payload(config.payload);
    verify::parse_summation(config.summation);
    prepared->check(read_problem(config, nullptr));
    return 0;
  });
  return prepared;
}

void validate(const Config& config) { prepare(config); }

std::unique_ptr<OperatorProgram> Prepared::make_operator() const {
  return as_invalid_argument([&] { return make(); });
}

std::unique_ptr<schedule::Program> Prepared::make_program() const { return make_operator(); }

std::unique_ptr<schedule::Program> make_program(const Config& config) {
  return prepare(config)->make_program();
}

}  // namespace ringfence::programs

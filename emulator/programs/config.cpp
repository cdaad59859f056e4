#include "emulator/programs/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "emulator/programs/protocols/lamport.hpp"
#include "emulator/programs/payload.hpp"
#include "emulator/programs/protocols/pull.hpp"
#include "emulator/programs/protocols/put_notify.hpp"
#include "emulator/programs/protocols/pypto.hpp"
#include "emulator/programs/switches.hpp"
#include "emulator/programs/protocols/tokenweave.hpp"
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
  using enum Boundary;
  const auto entry = [](const char* name, const char* summary, std::vector<Boundary> claims) {
    return Protocol{name, summary, switch_names(name), std::move(claims)};
  };
  static const std::vector<Protocol> all = {
      entry("tokenweave",
            "reduce-scatter, residual add, RMSNorm and all-gather in one pass over multicast "
            "memory",
            {coherent}),
      entry("pypto",
            "push with atomic add into the peers' tiles, then the norm: a task graph over "
            "symmetric memory",
            {strict, stream, coherent}),
      entry("cas-slots", "tokenweave with an acquire start wait and a relaxed end wait",
            {stream, coherent}),
      entry("epoch-inbox", "one-shot pull between barriers of epochs that only grow",
            {strict, stream, coherent}),
      entry("multimem-counter",
            "one-shot pull between barriers of one counter, added to by multicast",
            {strict, stream, coherent}),
      entry("flag-two-shot", "two-shot pull, its two barriers by 0/1 flags that clear each other",
            {coherent}),
      entry("counter-two-shot", "two-shot pull, its barriers by counters in two sets of slots",
            {coherent}),
      entry("mod3-flag", "one-shot pull between barriers by flags that count mod 3",
            {strict, stream, coherent}),
      entry("lamport", "one-shot push of words that are no sentinel, into three buffers in turn",
            {stream, coherent}),
      entry("put-notify", "puts of partials and then of results, each with a signal behind it",
            {strict, stream, coherent}),
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
    if (config.protocol == "lamport") return std::make_unique<Lamport>(config);
    if (config.protocol == "put-notify") return std::make_unique<PutNotify>(config);
    if (Pull::is_one(config.protocol)) return std::make_unique<Pull>(config);
    return std::make_unique<TokenWeave>(config);
  });
}

}  // namespace ringfence::programs

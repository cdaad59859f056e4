#include "emulator/analysis/swarm.hpp"

#include <initializer_list>

#include "emulator/programs/payload.hpp"
#include "emulator/schedule/random.hpp"

namespace ringfence::analysis {

SwarmChoice draw_swarm(const programs::Config& base, const schedule::StrategySpec& strategy,
                       std::uint64_t seed, bool draw_protocol) {
  schedule::Random random(seed);
  const auto one_of = [&](std::initializer_list<std::uint32_t> values) {
    return values.begin()[random.below(static_cast<std::uint32_t>(values.size()))];
  };
  const auto chance = [&](std::uint32_t in) { return random.below(in) == 0; };
  SwarmChoice s{base, strategy};
  programs::Config& c = s.config;
  if (draw_protocol) c.protocol = chance(2) ? "pypto" : "tokenweave";
  const bool pypto = programs::flavour_of(c.protocol) == verify::Flavour::pypto;
  c.ranks = one_of({2, 2, 2, 3, 4, 4, 8});
  // tokenweave: tokens divide by the ranks; pypto: more rows than one tile has, now and then.
  c.tokens = pypto ? one_of({1, 2, 5, 8, 9, 16, 24}) : c.ranks * one_of({1, 1, 2, 3, 4});
  c.hidden = one_of({8, 16, 64, 72, 136});
  c.inner = c.ranks * one_of({1, 2, 8});
  c.blocks = one_of({1, 1, 2, 3, 4});
  c.calls = one_of({1, 1, 2, 3});
  c.dtype = chance(3) && !pypto ? "fp16" : "bf16";  // pypto adds in bf16
  c.payload = chance(4) ? "integers" : "exact";
  c.payload_seed = random.next();
  using Kind = schedule::StrategySpec::Kind;
  static constexpr Kind kKinds[] = {Kind::pct,  Kind::pct, Kind::random,
                                    Kind::surw, Kind::pos, Kind::portfolio};
  s.strategy.kind = kKinds[random.below(6)];
  s.strategy.depth = one_of({1, 2, 3, 5});
  s.strategy.stale = static_cast<double>(one_of({0, 2, 5, 20})) / 100;
  using schedule::FaultKind;
  schedule::FaultSpec from = strategy.faults;
  if (!from.any()) {
    for (const FaultKind kind :
         {FaultKind::kill, FaultKind::pause, FaultKind::delay, FaultKind::late_signal}) {
      from[kind].count = 2;
    }
  }
  s.strategy.faults = {};
  for (int k = 0; k < schedule::kFaultKinds; ++k) {
    const auto kind = static_cast<FaultKind>(k);
    if (from[kind].any() && chance(3)) s.strategy.faults[kind] = from[kind];
  }
  return s;
}

}  // namespace ringfence::analysis

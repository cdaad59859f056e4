#include "emulator/schedule/strategy.hpp"

#include <new>
#include <stdexcept>

#include "emulator/schedule/strategies.hpp"

namespace ringfence::schedule {
namespace {

// A strategy with its size, so that it can be given back to a memory resource.
struct Header {
  std::size_t bytes;
};
constexpr std::size_t kHeader = alignof(std::max_align_t);
static_assert(sizeof(Header) <= kHeader);

template <class T, class... Args>
Strategy* make(std::pmr::memory_resource* memory, Args&&... args) {
  const std::size_t bytes = kHeader + sizeof(T);
  auto* at = static_cast<std::byte*>(memory->allocate(bytes, alignof(std::max_align_t)));
  ::new (static_cast<void*>(at)) Header{bytes};
  try {
    return ::new (static_cast<void*>(at + kHeader)) T(std::forward<Args>(args)...);
  } catch (...) {
    memory->deallocate(at, bytes, alignof(std::max_align_t));
    throw;
  }
}

}  // namespace

std::string_view name(StrategySpec::Kind kind) {
  switch (kind) {
    case StrategySpec::Kind::first:
      return "first";
    case StrategySpec::Kind::random:
      return "random";
    case StrategySpec::Kind::pct:
      return "pct";
    case StrategySpec::Kind::replay:
      return "replay";
    case StrategySpec::Kind::pos:
      return "pos";
    case StrategySpec::Kind::surw:
      return "surw";
    case StrategySpec::Kind::portfolio:
      return "portfolio";
    case StrategySpec::Kind::mutant:
      return "mutant";
  }
  return "?";
}

StrategySpec::Kind parse_strategy(std::string_view text) {
  using Kind = StrategySpec::Kind;
  for (const Kind kind : {Kind::first, Kind::random, Kind::pct, Kind::replay, Kind::pos, Kind::surw,
                          Kind::portfolio, Kind::mutant}) {
    if (name(kind) == text) return kind;
  }
  throw std::invalid_argument("no strategy has the name " + std::string(text));
}

StrategySpec drawn(const StrategySpec& spec) {
  using Kind = StrategySpec::Kind;
  if (spec.kind != Kind::portfolio) return spec;
  // Not the numbers that the strategy itself draws from the seed.
  Random random(mix64(spec.seed) ^ 0x706f7274666f6c69u);
  // Found by trial (tests/rare). A walk is dear where each rank is a process: it changes ranks most
  // often.
  static constexpr struct {
    Kind kind;
    std::uint32_t of_32;
  } kShares[] = {{Kind::pct, 7}, {Kind::pos, 11}, {Kind::surw, 13}, {Kind::random, 1}};
  StrategySpec s = spec;
  std::uint32_t at = random.below(32);
  for (const auto& share : kShares) {
    s.kind = share.kind;
    if (at < share.of_32) break;
    at -= share.of_32;
  }
  constexpr std::uint32_t kDeepest = 8;
  s.depth = 1 + random.below(kDeepest);
  // Some faults need an old value, and what others need old values spoil.
  if (random.below(3) == 0) s.stale = 0;
  return s;
}

Strategy* make_strategy(const StrategySpec& spec, std::span<const Decision> decisions,
                        const Profile* profile, std::pmr::memory_resource* memory) {
  switch (spec.kind) {
    case StrategySpec::Kind::first:
      return make<FirstStrategy>(memory);
    case StrategySpec::Kind::random:
      return make<RandomStrategy>(memory, spec);
    case StrategySpec::Kind::pct:
      return make<PctStrategy>(memory, spec, memory);
    case StrategySpec::Kind::replay:
      return make<ReplayStrategy>(memory, decisions, memory);
    case StrategySpec::Kind::pos:
      return make<PosStrategy>(memory, spec, profile, memory);
    case StrategySpec::Kind::surw:
      return make<SurwStrategy>(memory, spec, profile, memory);
    case StrategySpec::Kind::mutant:
      return make<MutantStrategy>(memory, spec, decisions, profile, memory);
    case StrategySpec::Kind::portfolio:
      return make_strategy(drawn(spec), decisions, profile, memory);
  }
  throw std::invalid_argument("strategy: unknown kind");
}

void destroy_strategy(Strategy* strategy, std::pmr::memory_resource* memory) {
  if (strategy == nullptr) return;
  // All strategies have Strategy as their first base, so the object starts where it was made.
  auto* at = reinterpret_cast<std::byte*>(strategy) - kHeader;
  const std::size_t bytes = reinterpret_cast<Header*>(at)->bytes;
  strategy->~Strategy();
  memory->deallocate(at, bytes, alignof(std::max_align_t));
}

}  // namespace ringfence::schedule

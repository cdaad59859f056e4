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
  }
  return "?";
}

Strategy* make_strategy(const StrategySpec& spec, std::span<const Decision> decisions,
                        std::pmr::memory_resource* memory) {
  switch (spec.kind) {
    case StrategySpec::Kind::first:
      return make<FirstStrategy>(memory);
    case StrategySpec::Kind::random:
      return make<RandomStrategy>(memory, spec);
    case StrategySpec::Kind::pct:
      return make<PctStrategy>(memory, spec, memory);
    case StrategySpec::Kind::replay:
      return make<ReplayStrategy>(memory, decisions, memory);
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

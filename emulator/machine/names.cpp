#include "emulator/machine/names.hpp"

#include <array>

namespace ringfence::machine {

namespace {

constexpr std::array<std::string_view, kScopes> kScopeNames{"cta", "cluster", "gpu", "sys"};
constexpr std::array<std::string_view, 6> kOrderNames{"weak",    "relaxed", "acquire",
                                                      "release", "acq_rel", "sc"};
constexpr std::array<std::string_view, 3> kBoundaryNames{"strict", "stream", "coherent"};
constexpr std::array<std::string_view, kFindingKinds> kFindingNames{
    "data-race",          "stale-read",       "deadlock",
    "livelock",           "lost-signal",      "unrestored-signal",
    "barrier-divergence", "out-of-bounds",    "misaligned",
    "uninitialised-read", "multicast-misuse", "replica-mismatch",
    "numeric-mismatch",   "rank-lost",        "uninitialised-barrier",
    "barrier-misuse",     "incoherent-read",  "cluster-entry",
    "cluster-exit",       "residency"};

template <class E, std::size_t N>
std::optional<E> parse(const std::array<std::string_view, N>& names, std::string_view text) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == text) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(Scope s) { return kScopeNames[static_cast<std::size_t>(s)]; }
std::string_view name(Order o) { return kOrderNames[static_cast<std::size_t>(o)]; }
std::string_view name(Boundary b) { return kBoundaryNames[static_cast<std::size_t>(b)]; }
std::string_view name(FindingKind k) { return kFindingNames[static_cast<std::size_t>(k)]; }

std::optional<Scope> parse_scope(std::string_view t) { return parse<Scope>(kScopeNames, t); }
std::optional<Order> parse_order(std::string_view t) {
  const auto order = parse<Order>(kOrderNames, t);
  return order == Order::sc ? std::nullopt : order;
}
std::optional<Boundary> parse_boundary(std::string_view t) {
  return parse<Boundary>(kBoundaryNames, t);
}
std::optional<FindingKind> parse_finding_kind(std::string_view t) {
  return parse<FindingKind>(kFindingNames, t);
}

}  // namespace ringfence::machine

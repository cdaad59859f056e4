#pragma once
// The words by which a trace writes enumerations, in the order of their values.

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "emulator/schedule/decision.hpp"

namespace ringfence::trace {

inline constexpr std::array<std::string_view, schedule::kDecisionKinds> kDecisionWords{
    "pick",  "read",   "coherence", "miss",  "sum",  "split", "timeout",
    "looks", "behind", "overlap",   "fault", "late", "dirty"};
// What befalls who stands at a point, in the order of schedule::FaultKind.
inline constexpr std::array<std::string_view, 4> kStepFaultWords{"kill", "restart", "pause",
                                                                 "delay"};
inline constexpr std::array<std::string_view, 7> kEndWords{
    "running", "complete", "finding", "deadlock", "step-limit", "stopped", "lost"};
inline constexpr std::array<std::string_view, 4> kAccessWords{"read", "write", "rmw", "none"};
inline constexpr std::array<std::string_view, 10> kMissingWords{
    "none",       "synchronisation", "first-scope", "second-scope", "strength", "complete-overlap",
    "same-proxy", "proxy-fence",     "completion",  "one-proxy"};
inline constexpr std::array<std::string_view, 4> kProxyWords{"generic", "multicast", "async",
                                                             "readonly"};
inline constexpr std::array<std::string_view, 6> kCompareWords{"==", "!=", "<", "<=", ">", ">="};

template <class E>
std::optional<E> find_word(std::span<const std::string_view> words, std::string_view word) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word) return static_cast<E>(i);
  }
  return std::nullopt;
}

// "a, b or c", for messages
std::string list_words(std::span<const std::string_view> words);

}  // namespace ringfence::trace

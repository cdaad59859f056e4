#include "emulator/trace/names.hpp"

#include "emulator/trace/trace.hpp"

namespace ringfence::trace {

namespace {

template <class E>
std::string_view word(std::span<const std::string_view> words, E value) {
  return words[static_cast<std::size_t>(value)];
}

}  // namespace

std::string_view name(schedule::DecisionKind k) { return word(kDecisionWords, k); }
std::string_view name(schedule::RunEnd e) { return word(kEndWords, e); }
std::string_view name(machine::AccessKind k) { return word(kAccessWords, k); }
std::string_view name(machine::Missing m) { return word(kMissingWords, m); }
// Other proxies and second names are litmus tests' alone, which record no trace.
std::string_view name(machine::Proxy p) {
  return kProxyWords[p == machine::Proxy::multicast  ? 1
                     : p == machine::Proxy::async    ? 2
                     : p == machine::Proxy::readonly ? 3
                                                     : 0];
}
std::string_view name(machine::Compare c) { return word(kCompareWords, c); }

std::string list_words(std::span<const std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace ringfence::trace

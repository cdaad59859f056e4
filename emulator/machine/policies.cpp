#include "emulator/machine/policies.hpp"

#include <algorithm>
#include <type_traits>

namespace ringfence::machine {
namespace {

template <auto Member>
constexpr NamedPolicy named(std::string_view name, std::array<std::string_view, 3> words,
                            bool of_kernels) {
  NamedPolicy p;
  p.name = name;
  p.words = words;
  p.of_kernels = of_kernels;
  p.get = [](const Policy& policy) { return static_cast<std::size_t>(policy.*Member); };
  p.set = [](Policy& policy, std::size_t value) {
    using E = std::remove_reference_t<decltype(policy.*Member)>;
    policy.*Member = static_cast<E>(value);
  };
  return p;
}

constexpr std::array kPolicies{
    named<&Policy::multicast_flag>("multicast-flag", {"cohere", "strict"}, false),
    named<&Policy::alias_data>("alias-data", {"cohere", "fence-required"}, false),
    named<&Policy::load_buffering>("load-buffering", {"off", "on"}, false),
    named<&Policy::plain_multicast>("plain-multicast", {"refuse", "allow"}, true),
    named<&Policy::time_out>("timeout", {"spared", "taken"}, true),
    named<&Policy::fresh_lines>("fresh-lines", {"off", "on"}, true),
    named<&Policy::vector>("vector", {"elements", "atomic"}, true),
    named<&Policy::line>("line", {"lanes", "ordered"}, true),
    named<&Policy::syncthreads>("syncthreads", {"warp", "cuda"}, true),
    named<&Policy::progress>("progress", {"fit", "letter"}, true),
    named<&Policy::mbarrier_remote>("mbarrier-remote", {"shipped", "letter"}, true),
    named<&Policy::async_war>("async-war", {"note", "fence-required", "off"}, true)};

}  // namespace

std::span<const NamedPolicy> named_policies() { return kPolicies; }

const NamedPolicy* find_policy(std::string_view name) {
  const auto p = std::find_if(kPolicies.begin(), kPolicies.end(),
                              [&](const NamedPolicy& n) { return n.name == name; });
  return p == kPolicies.end() ? nullptr : &*p;
}

std::string_view policy_word(const Policy& p, std::string_view name) {
  return find_policy(name)->word(p);
}

bool NamedPolicy::choose(Policy& p, std::string_view word) const {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].empty() || words[i] != word) continue;
    set(p, i);
    return true;
  }
  return false;
}

}  // namespace ringfence::machine

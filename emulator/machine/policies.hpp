#pragma once
// The policies that people choose by name: `--policy NAME=WORD`, and the same keys in traces and
// results. One table; a new policy is a field of machine::Policy and a line there.

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "emulator/machine/policy.hpp"

namespace ringfence::machine {

struct NamedPolicy {
  std::string_view name;
  // In the order of the enumeration's values; empty behind the last. The first is the usual one.
  std::array<std::string_view, 3> words;
  // Of compiled kernels alone; left out of traces and results where it is the usual one.
  bool of_kernels = false;
  std::size_t (*get)(const Policy&) = nullptr;
  void (*set)(Policy&, std::size_t) = nullptr;

  std::string_view word(const Policy& p) const { return words[get(p)]; }
  // False: it has no such word, and `p` is as it was.
  bool choose(Policy& p, std::string_view word) const;
};

std::span<const NamedPolicy> named_policies();
// The word of the policy of that name, which there is.
std::string_view policy_word(const Policy& p, std::string_view name);
// Null: there is none of that name.
const NamedPolicy* find_policy(std::string_view name);

}  // namespace ringfence::machine

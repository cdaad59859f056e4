#pragma once
// Text for the machine's enumerations, and back; policies.hpp has those of policies. Parsing
// returns nothing for an unknown word.

#include <optional>
#include <string_view>

#include "emulator/machine/finding.hpp"
#include "emulator/machine/policy.hpp"
#include "emulator/machine/scope.hpp"

namespace ringfence::machine {

std::string_view name(Scope s);
std::string_view name(Order o);
std::string_view name(Boundary b);
std::string_view name(FindingKind k);

std::optional<Scope> parse_scope(std::string_view text);
std::optional<Order> parse_order(std::string_view text);  // of an access: sc is none
std::optional<Boundary> parse_boundary(std::string_view text);
std::optional<FindingKind> parse_finding_kind(std::string_view text);

}  // namespace ringfence::machine

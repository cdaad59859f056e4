#pragma once
// Findings that are known and passed over: [[ignore]] of a case file, and those of --suppress FILE.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/machine/finding.hpp"

namespace ringfence::cases {

// What is given has to hold of a finding, all of it; of one access where it is about accesses.
struct Suppression {
  machine::FindingKind kind = machine::FindingKind::data_race;
  std::string memory;
  std::string line;    // "FILE:LINE" of the PTX or of the CUDA source
  std::string other;   // the same of the other access
  std::string kernel;  // a part of its name
  std::optional<std::uint32_t> rank;
  bool same_value = false;  // a race of two writes of one value
  std::string reason;
  std::string place;  // "FILE:LINE" of it
};

// The [[ignore]] tables of a file of suppressions. Throws CaseError.
std::vector<Suppression> read_suppressions(std::string_view text, const std::string& path);

// "FILE:LINE, data-race of memory pad: REASON"
std::string text(const Suppression& suppression);

}  // namespace ringfence::cases

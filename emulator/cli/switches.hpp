#pragma once
// switches: what --set takes of a protocol.

#include <string>

#include "emulator/cli/errors.hpp"

namespace ringfence::cli {

struct SwitchesOptions {
  std::string protocol;  // empty: the protocols themselves
};

// Throws UsageError for a protocol that is not there.
Exit run(const SwitchesOptions& options);

}  // namespace ringfence::cli

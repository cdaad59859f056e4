#pragma once
// Who answers where the model leaves more than one answer.

#include <cstdint>

#include "emulator/machine/clock.hpp"

namespace ringfence::machine {

// What a choice is about; for traces and for strategies that weigh them.
enum class Choice : std::uint8_t {
  read,       // which readable message, newest first
  coherence,  // where a write lands, last first
  miss,       // whether a poll whose newest message does not satisfy it sees an older one (1..)
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  // An answer below `options` (at least 2). 0 is what sequential consistency would do.
  virtual std::uint32_t choose(Choice kind, ThreadId who, std::uint32_t options) = 0;
};

}  // namespace ringfence::machine

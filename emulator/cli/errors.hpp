#pragma once
// Exit statuses, and which exception means which.

#include <exception>
#include <string>

#include "emulator/analysis/errors.hpp"

namespace ringfence::cli {

enum class Exit : int {
  clean = 0,
  finding = 1,    // or a mismatch
  bad_input = 2,  // bad usage or bad input: one line says what, where, and what would be right
  unknown = 3,    // a bound or budget ended first
  interrupted = 4,
  diverged = 5,  // a replay that is no longer the recorded run
  internal = 70,
  skipped = 77,  // for want of hardware
};

// The commands drive what is in emulator/analysis, in its words.
using namespace analysis;  // NOLINT: a room above, not a header of others

// What the user gave cannot be used: one line.
using UsageError = analysis::InputError;

// A case file has the sizes: no line names options that it answers.
void note_case();

// A finding that counts was told: whatever fails after that, the status stays `finding`.
void note_told();
bool told();

// The status and the line for what a command threw.
Exit describe(const std::exception_ptr& error, std::string& line);

}  // namespace ringfence::cli

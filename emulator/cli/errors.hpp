#pragma once
// Exit statuses, and which exception means which.

#include <exception>
#include <stdexcept>
#include <string>

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

// What the user gave cannot be used: one line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

// A case file has the sizes: no line names options that it answers.
void note_case();

// A finding that counts was told: whatever fails after that, the status stays `finding`.
void note_told();
bool told();

// The status and the line for what a command threw. Bad input is known by its exception types: the
// readers', the configuration's (std::invalid_argument), the segment's and memory that is not
// there.
Exit describe(const std::exception_ptr& error, std::string& line);

}  // namespace ringfence::cli

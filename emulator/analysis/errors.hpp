#pragma once
// What an analysis throws, and which exception means what: the one place where that is decided.

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace ringfence::analysis {

// What was given cannot be used. what(): one line: what, where, and what would be right.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// schedule::interrupt() ended it with nothing to show.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

enum class ErrorKind : std::uint8_t {
  input,          // bad input
  interrupted,    // by the caller
  time_over,      // before there was anything to show
  out_of_memory,  // what was asked does not fit this machine
  internal,       // a fault of ringfence
};

struct Described {
  ErrorKind kind = ErrorKind::internal;
  std::string line;
};

// Of whatever the rooms below throw. Bad input is known by its exception types: the readers', the
// configuration's (std::invalid_argument) and the segment's.
Described describe(const std::exception_ptr& error);

}  // namespace ringfence::analysis

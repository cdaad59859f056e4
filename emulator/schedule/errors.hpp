#pragma once
// What a run throws that came to no end, and the word by which one process tells another.

#include <cstdint>
#include <stdexcept>
#include <string>

namespace ringfence::schedule {

// The program's own code threw. what(): the agent and the exception's text.
class ProgramError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The program does what the machine cannot judge (machine::NotModelled). what(): the agent and why.
class NotModelled : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

// Memory ran out in the middle of a run. what(): which.
class OutOfMemory : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

enum class Thrown : std::uint8_t { nothing, by_program, not_modelled, out_of_memory };

[[noreturn]] inline void rethrow(Thrown kind, const std::string& what) {
  switch (kind) {
    case Thrown::not_modelled:
      throw NotModelled(what);
    case Thrown::out_of_memory:
      throw OutOfMemory(what);
    case Thrown::nothing:
    case Thrown::by_program:
      break;
  }
  throw ProgramError(what);
}

}  // namespace ringfence::schedule

// Random litmus tests for comparing the emulator's search with the axiomatic checker.
#pragma once

#include <cstdint>

#include "emulator/litmus/ast.hpp"

namespace ringfence::axiomatic {

struct GeneratorOptions {
  int min_threads = 2;
  int max_threads = 4;
  // Accesses, fences and barriers of all threads together; an atomic is one.
  int min_events = 3;
  int max_events = 8;
  int max_locations = 3;
  // Features that a program may have; each program switches some of these off, so that rare
  // combinations get programs of their own.
  bool atomics = true;
  bool compare_and_swap = true;
  bool fences = true;
  bool barriers = true;
  bool dependencies = true;
  // A load may be an await: a loop until it returns one given value.
  bool awaits = true;
  // An atomic may be one: a compare-and-swap until it succeeds, which may write what it found.
  bool atomic_awaits = false;
  bool clusters = true;
  // Second names of locations, and accesses through the constant, texture and surface proxies, with
  // the fences of those.
  bool aliases = false;
  bool proxies = false;
  // Most atomics are exchanges, and nobody asks what most atomics read.
  bool unread_exchanges = false;
  // Most strong loads are waits until a value is another one, of which nobody asks what they read.
  bool unread_awaits = false;
};

// The test of a seed. Its name is "generated-SEED"; every write has a value of its own (stores and
// exchanges write 1, 2, 3, …, additions add distinct powers of two from 16 on, so that a sum names
// its addends); every read has a register of its own. The condition is true, and all registers
// that are read into and all locations are observed: states over observed_variables(test) are
// complete outcomes. Barriers complete in every execution.
litmus::Test generate(std::uint64_t seed, const GeneratorOptions& options = {});

}  // namespace ringfence::axiomatic

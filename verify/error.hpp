// The one exception of verify. Its message is a single line: what is wrong, where (file, byte,
// key, option), and what would be right. A command prints it and ends with exit status 2.
#pragma once

#include <stdexcept>

namespace ringfence::verify {

struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace ringfence::verify

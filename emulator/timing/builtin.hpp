#pragma once
// The profiles of cuda/profiles, as the build copied them in.

#include <vector>

namespace ringfence::timing {

struct Builtin {
  const char* name;
  const char* text;
};

const std::vector<Builtin>& builtins();

}  // namespace ringfence::timing

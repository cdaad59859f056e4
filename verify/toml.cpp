#define TOML_IMPLEMENTATION
#include "verify/toml.hpp"

namespace ringfence::verify {

void throw_toml_assertion() { throw TomlAssertion{}; }

}  // namespace ringfence::verify

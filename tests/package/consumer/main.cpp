// A result that is right, and one that is not.
#include <cstdio>

// One of the headers registers a reporter of doctest's, whose code a program has once.
#define DOCTEST_CONFIG_IMPLEMENT

#include "headers.hpp"  // every header that was installed

int main() {
  namespace verify = ringfence::verify;
  verify::Problem problem;
  problem.tokens = 2;
  problem.inner = 64;
  problem.hidden = 64;
  const verify::Inputs inputs = verify::generate(problem, verify::Fill::normal, 3, 0);
  verify::Safetensors file;
  file.add("x", inputs.x);
  verify::write_safetensors("x.safetensors", file);
  const auto again = verify::read_safetensors("x.safetensors");
  const bool equal = again.tensors.size() == 1;
  std::puts(equal ? "equal" : "different");
  return equal ? 0 : 1;
}

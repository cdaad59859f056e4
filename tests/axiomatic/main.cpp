// axiomatic_litmus FILE…: the axiomatic checker's verdict on litmus tests, for people who write
// them. Prints herd7's block and whether some execution has a data race. Exit status 0, or 2 when
// a file cannot be read or is beyond the checker.
#include <cstdio>
#include <exception>

#include "emulator/litmus/parser.hpp"
#include "tests/axiomatic/convert.hpp"

int main(int argc, char** argv) {
  using namespace ringfence;
  int status = 0;
  for (int i = 1; i < argc; ++i) {
    try {
      const litmus::Test test = litmus::parse_file(argv[i]);
      const axiomatic::Result result = axiomatic::check(axiomatic::convert(test));
      std::fputs(litmus::herd_block(test, axiomatic::states(test, result)).c_str(), stdout);
      std::printf("Race %s\n", result.race_unobserved ? ("yes: " + result.race_text).c_str()
                               : result.race          ? "only by the letter"
                                                      : "no");
      std::printf("Executions %llu%s\n\n", static_cast<unsigned long long>(result.executions),
                  result.bounded ? ", loops bounded" : "");
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", argv[i], error.what());
      status = 2;
    }
  }
  return status;
}

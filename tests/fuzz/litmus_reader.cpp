// Arbitrary bytes as a litmus test: read, or refused with a ParseError of one line. What is read
// must survive being printed and read again, and its verdict must be computable.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "emulator/litmus/parser.hpp"
#include "emulator/litmus/printer.hpp"
#include "emulator/litmus/verdict.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringfence::litmus;
  Test test;
  try {
    test = parse(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  } catch (const ParseError& e) {
    if (std::string_view(e.what()).find('\n') != std::string_view::npos) std::abort();
    return 0;
  }
  const std::string text = print(test);
  if (print(parse(text, "again")) != text) std::abort();
  const States states = {{State(observed_variables(test).size(), 1), 1}};
  if (herd_block(test, states).empty()) std::abort();
  return 0;
}

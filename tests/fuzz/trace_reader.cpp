// Arbitrary bytes as a trace: read, or refused with a TraceError of one line. What is read must
// survive being written and read again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "emulator/trace/trace.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringfence::trace;
  Trace trace;
  try {
    trace = parse("fuzz", std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const TraceError& e) {
    if (std::string_view(e.what()).find('\n') != std::string_view::npos) std::abort();
    return 0;
  }
  const std::string text = to_text(trace);
  if (to_text(parse("again", text)) != text) std::abort();
  return 0;
}

#include "emulator/analysis/memory.hpp"

#include <fmt/format.h>

#include <limits>

#include "emulator/analysis/errors.hpp"
#include "emulator/ranks/segment.hpp"

namespace ringfence::analysis {

std::uint64_t payload_bytes(const programs::Config& c) {
  // long double: 64 bits of mantissa, and no overflow.
  const long double tokens = c.tokens, hidden = c.hidden, inner = c.inner, ranks = c.ranks;
  const long double rows = tokens * hidden;
  // residual and partials of 2 bytes; expected values and bounds as four doubles at most, or two
  // tensors of 2 bytes where the payload is exact.
  const bool exact = c.input.empty() && c.payload != "normal";
  const long double kept = 2 * rows * (1 + ranks) + rows * (exact ? 4 : 32);
  // Inputs of the product, as read or generated and as the floats that Eigen multiplies.
  const long double product = (tokens + hidden) * inner * 2 + (tokens + hidden) * inner / ranks * 4;
  // The ranks' buffers of 2 bytes an element, with a copy of their initial content and a pointer
  // for each line, and what each rank's consumer keeps of each call. The segment is checked once
  // more, to the byte, before it is mapped; this is so that nothing is computed in vain.
  const long double shared = rows * ranks * 5 + rows * ranks * 2 * c.calls;
  const long double all = kept * c.calls + product + shared;
  const auto most = std::numeric_limits<std::uint64_t>::max();
  return all >= static_cast<long double>(most) ? most : static_cast<std::uint64_t>(all);
}

void check_memory(const Subject& subject, std::uint64_t copies) {
  const std::uint64_t bytes = subject.payload_bytes();
  const std::uint64_t available = ranks::available_memory();
  if (bytes <= available / copies) return;
  constexpr std::uint64_t kMebi = 1 << 20;
  throw InputError(fmt::format(
      "inputs, expected results and the ranks' buffers need {} MiB{}, but only {} MiB of memory "
      "are available; smaller --tokens, --hidden, --inner, --ranks or --calls need less",
      bytes / kMebi, copies > 1 ? fmt::format(" for each of {} jobs", copies) : "",
      available / kMebi));
}

}  // namespace ringfence::analysis

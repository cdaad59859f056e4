#include "tests/support/numerics.hpp"

#include <mutex>
#include <sstream>
#include <utility>

namespace ringfence::tests {
namespace {

std::mutex mutex;
std::vector<verify::Comparison> recorded;

}  // namespace

void record(const verify::Comparison& comparison) {
  const std::lock_guard lock(mutex);
  recorded.push_back(comparison);
}

std::vector<verify::Comparison> take_recorded() {
  const std::lock_guard lock(mutex);
  return std::exchange(recorded, {});
}

std::string failure_text(const verify::Comparison& comparison) {
  std::ostringstream text;
  text << comparison.name << ": " << comparison.mismatches << " of " << comparison.elements
       << " elements mismatch, " << verify::mismatch_text(comparison);
  return text.str();
}

}  // namespace ringfence::tests

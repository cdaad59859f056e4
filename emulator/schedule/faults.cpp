#include "emulator/schedule/faults.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace ringfence::schedule {

namespace {

constexpr std::array<std::string_view, kFaultKinds> kWords{"kill",  "restart",     "pause",
                                                           "delay", "late-signal", "dirty-pad"};

[[noreturn]] void fail(std::string_view what, const std::string& due) {
  throw std::invalid_argument("--faults " + std::string(what) + ": expected " + due);
}

FaultKind kind_of(std::string_view word) {
  const auto at = std::find(kWords.begin(), kWords.end(), word);
  if (at == kWords.end()) {
    fail(word, "a list of kill, restart, pause, delay, late-signal and dirty-pad");
  }
  return static_cast<FaultKind>(at - kWords.begin());
}

FaultRate rate_of(std::string_view item, std::string_view number) {
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value,
                                            std::chars_format::fixed);
  const std::string due = "a count from 1 to " + std::to_string(FaultSpec::kMostOfAKind) +
                          " or a chance between 0 and 1";
  if (error != std::errc() || end != number.data() + number.size()) fail(item, due);
  if (value > 0 && value < 1) return {0, value};
  const auto count = static_cast<std::uint32_t>(std::clamp(value, 0.0, 1e6));
  if (value < 1 || value > FaultSpec::kMostOfAKind || count != value) fail(item, due);
  return {count, 0};
}

}  // namespace

std::string_view name(FaultKind kind) { return kWords[static_cast<std::size_t>(kind)]; }

bool FaultSpec::any() const {
  return std::any_of(rates.begin(), rates.end(), [](const FaultRate& r) { return r.any(); });
}

FaultSpec parse_faults(const std::string& text) {
  FaultSpec spec;
  std::string_view rest = text;
  for (;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const std::size_t equals = item.find('=');
    FaultRate& rate = spec[kind_of(item.substr(0, equals))];
    if (rate.any()) fail(item, "each kind once");
    rate =
        equals == std::string_view::npos ? FaultRate{1, 0} : rate_of(item, item.substr(equals + 1));
    if (comma == std::string_view::npos) return spec;
    rest.remove_prefix(comma + 1);
  }
}

std::string text(const FaultSpec& spec) {
  std::string out;
  for (int k = 0; k < kFaultKinds; ++k) {
    const FaultRate& r = spec.rates[static_cast<std::size_t>(k)];
    if (!r.any()) continue;
    if (!out.empty()) out += ',';
    out += name(static_cast<FaultKind>(k));
    if (r.chance > 0) {
      char digits[32];
      const auto end =
          std::to_chars(digits, digits + sizeof digits, r.chance, std::chars_format::fixed);
      out += "=" + std::string(digits, end.ptr);
    } else if (r.count != 1) {
      out += "=" + std::to_string(r.count);
    }
  }
  return out;
}

std::uint32_t encode(const StepFault& fault) {
  return (1 + static_cast<std::uint32_t>(fault.kind)) | std::min(fault.span, kMostSpan) << 3;
}

std::optional<StepFault> decode_step_fault(std::uint64_t answer) {
  const std::uint64_t kind = answer & 7u;
  if (kind == 0 || kind > 1 + static_cast<std::uint64_t>(FaultKind::delay)) return std::nullopt;
  return StepFault{static_cast<FaultKind>(kind - 1), static_cast<std::uint32_t>(answer >> 3)};
}

std::optional<std::uint32_t> encode(const DirtyWord& dirty) {
  const auto at = std::find(kDirtyValues.begin(), kDirtyValues.end(), dirty.holds);
  if (at == kDirtyValues.end()) return std::nullopt;
  return dirty_options(dirty.word) + static_cast<std::uint32_t>(at - kDirtyValues.begin());
}

std::optional<DirtyWord> decode_dirty(std::uint64_t answer) {
  if (answer == 0) return std::nullopt;
  const std::uint64_t n = answer - 1;
  return DirtyWord{static_cast<std::uint32_t>(n / kDirtyValues.size()),
                   kDirtyValues[n % kDirtyValues.size()]};
}

}  // namespace ringfence::schedule

// vprintf and __assertfail.

#include <bit>
#include <cstdio>
#include <cstring>

#include "emulator/ptx/exec/state.hpp"

namespace ringfence::ptx {
namespace {
constexpr std::size_t kLongestText = 4096;
}

std::string Execution::State::read_text(Warp& warp, std::uint64_t address, std::uint32_t lane) {
  std::string out;
  while (out.size() < kLongestText) {
    const std::uint8_t c = read_generic_byte(warp, address + out.size(), lane);
    if (c == 0) break;
    out += static_cast<char>(c);
  }
  return out;
}

void Execution::State::print(Warp& warp, const Op& op, std::uint32_t mask) {
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(left));
    // The arguments of the call lie in the thread's .param slots, which are local memory.
    const auto slot = [&](Slot where) {
      std::uint64_t value = 0;
      std::memcpy(&value, plain(warp, Space::local, longs(warp, where)[lane], 8, lane), 8);
      return value;
    };
    const std::string format = read_text(warp, slot(op.a), lane);
    const std::uint64_t arguments = slot(op.b);
    std::uint64_t at = arguments;
    const auto next = [&](unsigned bytes) {
      at = (at + bytes - 1) / bytes * bytes;
      std::uint64_t value = 0;
      for (unsigned i = 0; i < bytes; ++i) {
        value |= static_cast<std::uint64_t>(read_generic_byte(warp, at + i, lane)) << (8 * i);
      }
      at += bytes;
      return value;
    };
    std::string out;
    for (std::size_t i = 0; i < format.size(); ++i) {
      if (format[i] != '%') {
        out += format[i];
        continue;
      }
      std::size_t end = format.find_first_not_of("-+ #0123456789.lhzjtq", i + 1);
      if (end == std::string::npos) break;
      const char conversion = format[end];
      std::string spec = format.substr(i, end - i);
      const bool wide = spec.find_first_of("lzjtq") != std::string::npos;
      std::erase_if(spec, [](char c) { return std::strchr("lhzjtq", c) != nullptr; });
      char text[512];
      if (conversion == '%') {
        out += '%';
      } else if (conversion == 's') {
        out += read_text(warp, next(8), lane);
      } else if (std::strchr("fFeEgGaA", conversion) != nullptr) {
        std::snprintf(text, sizeof text, (spec + conversion).c_str(),
                      std::bit_cast<double>(next(8)));
        out += text;
      } else if (conversion == 'p') {
        std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(next(8)));
        out += text;
      } else if (std::strchr("diuxXoc", conversion) != nullptr) {
        const std::uint64_t raw = next(wide ? 8 : 4);
        const bool is_signed = conversion == 'd' || conversion == 'i';
        const long long value = wide ? static_cast<long long>(raw)
                                : is_signed
                                    ? static_cast<long long>(static_cast<std::int32_t>(raw))
                                    : static_cast<long long>(static_cast<std::uint32_t>(raw));
        if (conversion == 'c') {
          out += static_cast<char>(raw);
        } else {
          std::snprintf(text, sizeof text, (spec + "ll" + conversion).c_str(), value);
          out += text;
        }
      } else {
        out += format.substr(i, end - i + 1);
      }
      i = end;
    }
    if (print_) print_(out);
    const auto result = static_cast<std::int32_t>(out.size());
    std::memcpy(plain(warp, Space::local, longs(warp, op.c)[lane], 4, lane), &result, 4);
  }
}

void Execution::State::assert_fail(Warp& warp, const Op& op, std::uint32_t mask) {
  const auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
  const auto argument = [&](std::uint32_t i, unsigned bytes) {
    std::uint64_t value = 0;
    const Slot where = program_.extra[op.extra + i];
    std::memcpy(&value, plain(warp, Space::local, longs(warp, where)[lane], bytes, lane), bytes);
    return value;
  };
  const std::string message = read_text(warp, argument(0, 8), lane);
  const std::string file = read_text(warp, argument(1, 8), lane);
  const std::uint64_t line = argument(2, 4);
  const std::string function = read_text(warp, argument(3, 8), lane);
  throw Fault(FaultKind::assertion,
              "assertion '" + message + "' failed in " + function + " at " + file + ":" +
                  std::to_string(line),
              lane);
}

}  // namespace ringfence::ptx

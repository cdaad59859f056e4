#pragma once

#include <cstdint>
#include <string>

namespace ringfence::ptx::test {

// A fat binary with one entry, as nvcc makes it; `flags` 0x11 and kind 1: PTX as it is.
inline std::string fatbin(const std::string& payload, std::uint64_t flags = 0x11,
                          std::uint16_t kind = 1, std::uint32_t architecture = 90) {
  std::string out(16 + 64, '\0');
  const auto put = [&](std::size_t at, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      out[at + static_cast<std::size_t>(i)] = static_cast<char>(value >> (8 * i));
  };
  put(0, 0xBA55ED50, 4);
  put(4, 1, 2);
  put(6, 16, 2);
  put(8, 64 + payload.size(), 8);
  put(16, kind, 2);
  put(20, 64, 4);
  put(24, payload.size(), 8);
  put(44, architecture, 4);
  put(56, flags, 8);
  return out + payload;
}

// What stands before the fat binaries of an ELF file.
inline std::string elf() {
  return std::string(
             "\x7f"
             "ELF",
             4) +
         std::string(100, 'x');
}

}  // namespace ringfence::ptx::test

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ringfence::ptx::test {

/// The checksum of POSIX `cksum`: CRC-32 with the length appended, complemented.
class Cksum {
 public:
  void add(std::uint8_t byte) {
    crc_ = crc_ << 8 ^ table()[(crc_ >> 24 ^ byte) & 255U];
    ++length_;
  }
  Cksum& add(std::string_view text) {
    for (const char c : text) add(static_cast<std::uint8_t>(c));
    return *this;
  }
  std::uint32_t value() const {
    std::uint32_t crc = crc_;
    for (std::uint64_t n = length_; n != 0; n >>= 8) {
      crc = crc << 8 ^ table()[(crc >> 24 ^ n) & 255U];
    }
    return ~crc;
  }

 private:
  static const std::array<std::uint32_t, 256>& table() {
    static const std::array<std::uint32_t, 256> rows = [] {
      std::array<std::uint32_t, 256> out{};
      for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t c = i << 24;
        for (int k = 0; k < 8; ++k) c = (c & 0x80000000U) != 0 ? c << 1 ^ 0x04C11DB7U : c << 1;
        out[i] = c;
      }
      return out;
    }();
    return rows;
  }
  std::uint32_t crc_ = 0;
  std::uint64_t length_ = 0;
};

}  // namespace ringfence::ptx::test

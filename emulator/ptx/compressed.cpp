#include "emulator/ptx/compressed.hpp"

#include <lz4.h>
#include <zstd.h>

namespace ringfence::ptx {

std::optional<std::string> decompress(std::string_view payload, Compression how,
                                      std::uint64_t size) {
  // Far more than any PTX: a file may say anything.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  if (size == 0 || size > kMost || payload.size() > kMost) return std::nullopt;
  std::string out(size, '\0');
  if (how == Compression::zstd) {
    const std::size_t got = ZSTD_decompress(out.data(), out.size(), payload.data(), payload.size());
    if (ZSTD_isError(got) != 0 || got != size) return std::nullopt;
    return out;
  }
  const int got = LZ4_decompress_safe(payload.data(), out.data(), static_cast<int>(payload.size()),
                                      static_cast<int>(out.size()));
  if (got < 0 || static_cast<std::uint64_t>(got) != size) return std::nullopt;
  return out;
}

}  // namespace ringfence::ptx

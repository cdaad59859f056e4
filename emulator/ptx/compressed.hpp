#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ringfence::ptx {

/// How nvcc compresses an entry of a fat binary: --compress-mode=speed, or the others.
enum class Compression : std::uint8_t { lz4, zstd };

/// The `size` bytes that it says are in `payload`; nothing where it holds others.
std::optional<std::string> decompress(std::string_view payload, Compression how,
                                      std::uint64_t size);

}  // namespace ringfence::ptx

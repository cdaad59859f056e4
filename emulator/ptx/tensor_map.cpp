#include "emulator/ptx/tensor_map.hpp"

#include <cstring>

namespace ringfence::ptx {
namespace {

constexpr std::uint64_t kMagic = 0x70614D726F736E54ULL;
constexpr std::uint64_t kMostSize = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostStride = std::uint64_t{1} << 40;

// As they lie in the bytes.
struct Image {
  std::uint64_t magic = kMagic;
  std::uint64_t address = 0;
  std::uint32_t size_less_one[TensorMap::kMostDimensions] = {};
  std::uint16_t box[TensorMap::kMostDimensions] = {};
  std::uint8_t element_bytes = 0;
  std::uint8_t dimensions = 0;
  std::uint64_t stride[TensorMap::kMostDimensions] = {};
  std::uint8_t swizzle = 0;
  std::uint8_t type = 0;
  std::uint8_t unused[38] = {};
};
static_assert(sizeof(Image) == TensorMap::kBytes);

}  // namespace

std::uint64_t TensorMap::box_bytes() const {
  std::uint64_t bytes = element_bytes;
  for (unsigned i = 0; i < dimensions; ++i) bytes *= box[i];
  return bytes;
}

std::string TensorMap::fault() const {
  if (dimensions < 1 || dimensions > kMostDimensions) return "1 to 5 dimensions";
  if (address % 16 != 0) return "an address that is a multiple of 16";
  for (unsigned i = 0; i < dimensions; ++i) {
    if (size[i] < 1 || size[i] > kMostSize) return "sizes of 1 to 2^32 elements";
    if (box[i] < 1 || box[i] > 256) return "box sizes of 1 to 256 elements";
    if (i > 0 && (stride[i] % 16 != 0 || stride[i] >= kMostStride)) {
      return "strides below 2^40 bytes that are multiples of 16";
    }
  }
  if (row_bytes() % 16 != 0) return "box rows of a multiple of 16 bytes";
  if (swizzle != Swizzle::none && row_bytes() > swizzle_span(swizzle)) {
    return "box rows of at most as many bytes as the swizzle spans, " +
           std::to_string(swizzle_span(swizzle));
  }
  return {};
}

std::array<std::uint8_t, TensorMap::kBytes> TensorMap::encode() const {
  Image image;
  image.address = address;
  image.element_bytes = element_bytes;
  image.dimensions = dimensions;
  image.type = static_cast<std::uint8_t>(type);
  image.swizzle = static_cast<std::uint8_t>(swizzle);
  for (unsigned i = 0; i < dimensions; ++i) {
    image.size_less_one[i] = static_cast<std::uint32_t>(size[i] - 1);
    image.box[i] = static_cast<std::uint16_t>(box[i]);
    image.stride[i] = stride[i];
  }
  std::array<std::uint8_t, kBytes> out;
  std::memcpy(out.data(), &image, kBytes);
  return out;
}

std::optional<TensorMap> TensorMap::decode(std::span<const std::byte, kBytes> bytes) {
  Image image;
  std::memcpy(&image, bytes.data(), kBytes);
  if (image.magic != kMagic || image.dimensions < 1 || image.dimensions > kMostDimensions) {
    return std::nullopt;
  }
  TensorMap out;
  out.address = image.address;
  out.element_bytes = image.element_bytes;
  out.dimensions = image.dimensions;
  if (image.type <= static_cast<std::uint8_t>(Type::s16x2))
    out.type = static_cast<Type>(image.type);
  out.swizzle = static_cast<Swizzle>(image.swizzle & 3U);
  for (unsigned i = 0; i < image.dimensions; ++i) {
    out.size[i] = std::uint64_t{image.size_less_one[i]} + 1;
    out.box[i] = image.box[i];
    out.stride[i] = image.stride[i];
  }
  if (!out.fault().empty()) return std::nullopt;
  return out;
}

}  // namespace ringfence::ptx

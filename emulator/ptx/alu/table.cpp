#include "emulator/ptx/alu/table.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>

namespace ringfence::ptx {
namespace {

template <class T>
T field(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

ApproximationTable::ApproximationTable(std::span<const std::byte> file) : file_(file) {
  if (file.size() < kHeader) throw std::runtime_error("approximation table: cut off");
  arguments_ = field<std::uint32_t>(file, 4);
  segment_ = field<std::uint32_t>(file, 8);
  scale_ = field<double>(file, 16);
  if (field<std::uint32_t>(file, 0) != kMagic || segment_ == 0 || arguments_ % segment_ != 0 ||
      arguments_ > (1U << 24)) {
    throw std::runtime_error("approximation table: malformed header");
  }
  differences_ = kHeader + sizeof(double) * 3 * (arguments_ / segment_);
  if (file.size() < differences_ + (arguments_ + 3) / 4) {
    throw std::runtime_error("approximation table: cut off");
  }
}

float ApproximationTable::result(std::uint32_t index) const {
  double c[3];
  std::memcpy(c, file_.data() + kHeader + sizeof c * (index / segment_), sizeof c);
  const double predicted = std::floor(table_coding::predict(c, index % segment_, segment_));
  const auto four = static_cast<unsigned>(file_[differences_ + index / 4]);
  const int difference = static_cast<int>(four >> (index % 4 * 2) & 3U) - 1;
  return static_cast<float>((predicted + difference) / scale_);
}

}  // namespace ringfence::ptx

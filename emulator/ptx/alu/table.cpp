#include "emulator/ptx/alu/table.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace ringfence::ptx {
namespace {

// Range decoder with carry-less 32-bit arithmetic; bytes beyond the end read as zero.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : bytes_(bytes) {
    for (int i = 0; i < 4; ++i) code_ = code_ << 8 | next();
  }
  unsigned bit(std::uint16_t& probability) {
    const std::uint32_t bound = (high_ >> 16) * probability;
    unsigned out;
    if (code_ < bound) {
      high_ = bound;
      out = 0;
    } else {
      code_ -= bound;
      high_ -= bound;
      out = 1;
    }
    table_coding::Model::adapt(probability, out);
    while (high_ < (1U << 24)) {
      code_ = code_ << 8 | next();
      high_ <<= 8;
    }
    return out;
  }

 private:
  std::uint32_t next() {
    return at_ < bytes_.size() ? static_cast<std::uint32_t>(bytes_[at_++]) : 0;
  }
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::uint32_t high_ = 0xFFFFFFFF;
  std::uint32_t code_ = 0;
};

// floor, of what fits 63 bits: without the call that the oldest instruction set needs.
double whole_of(double x) {
  const auto cut = static_cast<double>(static_cast<std::int64_t>(x));
  return cut > x ? cut - 1 : cut;
}

template <class T>
T field(std::span<const std::byte> bytes, std::size_t at) {
  if (at + sizeof(T) > bytes.size()) throw std::runtime_error("approximation table: cut off");
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

ApproximationTable::ApproximationTable(std::span<const std::byte> file) {
  arguments_ = field<std::uint32_t>(file, 4);
  segment_ = field<std::uint32_t>(file, 8);
  scale_ = field<double>(file, 12);
  if (field<std::uint32_t>(file, 0) != table_coding::kMagic || segment_ == 0 ||
      arguments_ % segment_ != 0 || arguments_ > (1U << 24)) {
    throw std::runtime_error("approximation table: malformed header");
  }
  const std::size_t segments = arguments_ / segment_;
  std::size_t at = 20;
  for (std::size_t i = 0; i < 3 * segments; ++i, at += 8) {
    coefficients_.push_back(field<double>(file, at));
  }
  Decoder decoder(file.subspan(at));
  table_coding::Model model;
  differences_.assign((arguments_ + 3) / 4, 0);
  // What does not depend on the coded bits is computed ahead, some hundred arguments at a time.
  constexpr std::uint32_t kAhead = 512;
  std::uint8_t bins[kAhead];
  for (std::size_t s = 0; s < segments; ++s) {
    int last = 0;
    int before = 0;
    for (std::uint32_t first = 0; first < segment_; first += kAhead) {
      const std::uint32_t count = std::min(kAhead, segment_ - first);
      for (std::uint32_t i = 0; i < count; ++i) {
        const double predicted = table_coding::predict(&coefficients_[3 * s], first + i, segment_);
        bins[i] = static_cast<std::uint8_t>(table_coding::bin(predicted - whole_of(predicted)));
      }
      for (std::uint32_t i = 0; i < count; ++i) {
        const unsigned c = table_coding::context(bins[i], last, before);
        int difference = 0;
        if (decoder.bit(model.differs[c]) != 0)
          difference = decoder.bit(model.sign[c]) != 0 ? -1 : 1;
        const std::size_t index = s * segment_ + first + i;
        differences_[index / 4] |= static_cast<std::uint8_t>((difference + 1) << (index % 4 * 2));
        before = last;
        last = difference;
      }
    }
  }
}

float ApproximationTable::result(std::uint32_t index) const {
  const double* c = &coefficients_[3 * (index / segment_)];
  const double predicted = std::floor(table_coding::predict(c, index % segment_, segment_));
  const int difference = static_cast<int>(differences_[index / 4] >> (index % 4 * 2) & 3U) - 1;
  return static_cast<float>((predicted + difference) / scale_);
}

}  // namespace ringfence::ptx

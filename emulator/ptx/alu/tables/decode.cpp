// decode CODED OUT: writes a coded table (alu/table.hpp) in the form in which the program holds it.
// The build runs it: decoding takes a tenth of a second and more, of every start of the program.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <vector>

#include "emulator/ptx/alu/table.hpp"

namespace {

using namespace ringfence::ptx;

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
  if (at + sizeof(T) > bytes.size()) throw std::runtime_error("cut off");
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void put(std::ofstream& out, T value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

// Differences + 1, in 2 bits each.
std::vector<std::uint8_t> differences(std::span<const std::byte> coded,
                                      std::span<const double> coefficients, std::uint32_t segment) {
  const std::size_t segments = coefficients.size() / 3;
  std::vector<std::uint8_t> out((segments * segment + 3) / 4);
  Decoder decoder(coded);
  table_coding::Model model;
  // What does not depend on the coded bits is computed ahead, some hundred arguments at a time.
  constexpr std::uint32_t kAhead = 512;
  std::uint8_t bins[kAhead];
  for (std::size_t s = 0; s < segments; ++s) {
    int last = 0;
    int before = 0;
    for (std::uint32_t first = 0; first < segment; first += kAhead) {
      const std::uint32_t count = std::min(kAhead, segment - first);
      for (std::uint32_t i = 0; i < count; ++i) {
        const double predicted = table_coding::predict(&coefficients[3 * s], first + i, segment);
        bins[i] = static_cast<std::uint8_t>(table_coding::bin(predicted - whole_of(predicted)));
      }
      for (std::uint32_t i = 0; i < count; ++i) {
        const unsigned c = table_coding::context(bins[i], last, before);
        int difference = 0;
        if (decoder.bit(model.differs[c]) != 0)
          difference = decoder.bit(model.sign[c]) != 0 ? -1 : 1;
        const std::size_t index = s * segment + first + i;
        out[index / 4] |= static_cast<std::uint8_t>((difference + 1) << (index % 4 * 2));
        before = last;
        last = difference;
      }
    }
  }
  return out;
}

void decode(std::span<const std::byte> file, std::ofstream& out) {
  const auto arguments = field<std::uint32_t>(file, 4);
  const auto segment = field<std::uint32_t>(file, 8);
  if (field<std::uint32_t>(file, 0) != table_coding::kMagic || segment == 0 ||
      arguments % segment != 0 || arguments > (1U << 24)) {
    throw std::runtime_error("malformed header");
  }
  std::vector<double> coefficients;
  std::size_t at = 20;
  for (std::uint32_t i = 0; i < 3 * (arguments / segment); ++i, at += 8) {
    coefficients.push_back(field<double>(file, at));
  }
  put(out, ApproximationTable::kMagic);
  put(out, arguments);
  put(out, segment);
  put(out, std::uint32_t{0});
  put(out, field<double>(file, 12));
  for (const double c : coefficients) put(out, c);
  const std::vector<std::uint8_t> all = differences(file.subspan(at), coefficients, segment);
  out.write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "decode CODED OUT\n");
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::vector<char> coded{std::istreambuf_iterator<char>(in), {}};
  std::ofstream out(argv[2], std::ios::binary);
  try {
    decode(std::as_bytes(std::span(coded)), out);
  } catch (const std::runtime_error& e) {
    std::fprintf(stderr, "%s: %s\n", argv[1], e.what());
    return 1;
  }
  out.close();
  return out ? 0 : 1;
}

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringfence::ptx {

/// What hardware computes for one approximate function over one or two binades of its argument.
///
/// The hardware interpolates: within each of 64 (rcp: 128) segments a binade its results follow a
/// quadratic, up to one unit. So a table is a quadratic for each segment and, for every argument,
/// the difference -1, 0 or 1 between the hardware's result and the rounded quadratic.
///
/// The tree has the differences coded by an adaptive binary range coder: 42 to 109 KB for 8 or 16
/// million arguments. File, little-endian: u32 magic "RFT1", u32 arguments, u32 arguments in a
/// segment, f64 scale (results are integers / scale), then for each segment three f64 (constant,
/// linear, quadratic coefficient in t = (2i + 1 - n) / n for argument i of n), then the coded
/// differences.
///
/// The program has them decoded (alu/tables/decode.cpp), so that it need not wait for a table and
/// only the pages that a kernel's arguments need are ever read: u32 magic "RFD1", arguments and
/// arguments in a segment as above, u32 0, then scale and coefficients as above, then difference +
/// 1 in 2 bits for each argument.
class ApproximationTable {
 public:
  static constexpr std::uint32_t kMagic = 0x31444652;

  /// Of a decoded table, which has to outlive it. Throws std::runtime_error for bytes that are
  /// none.
  explicit ApproximationTable(std::span<const std::byte> file);

  std::uint32_t arguments() const { return arguments_; }
  /// The result for argument `index`, the mantissa bits (and for two binades the lowest exponent
  /// bit) of the float that stands `index` places above the first.
  float result(std::uint32_t index) const;

 private:
  static constexpr std::size_t kHeader = 24;

  std::span<const std::byte> file_;
  std::uint32_t arguments_ = 0;
  std::uint32_t segment_ = 0;
  double scale_ = 1;
  std::size_t differences_ = 0;  ///< where they begin
};

/// The part that coder and decoder share.
namespace table_coding {

constexpr std::uint32_t kMagic = 0x31544652;
constexpr unsigned kBins = 64;  ///< of the quadratic's fraction
constexpr unsigned kContexts = kBins * 9;

/// The quadratic at argument i of a segment of n, plus one half; its floor is the prediction.
inline double predict(const double* c, std::uint32_t i, std::uint32_t n) {
  const double t = (2.0 * i + 1.0 - n) / n;
  return c[0] + t * (c[1] + t * c[2]) + 0.5;
}
/// Context from the fraction and the two differences before, each -1, 0 or 1.
inline unsigned bin(double fraction) {
  const auto b = static_cast<unsigned>(fraction * kBins);
  return b < kBins ? b : kBins - 1;
}
inline unsigned context(unsigned bin, int last, int before) {
  return (bin * 3 + static_cast<unsigned>(last + 1)) * 3 + static_cast<unsigned>(before + 1);
}
/// Probabilities of a zero bit in 1/65536, one for "differs" and one for its sign in each context.
struct Model {
  std::vector<std::uint16_t> differs = std::vector<std::uint16_t>(kContexts, 64000);
  std::vector<std::uint16_t> sign = std::vector<std::uint16_t>(kContexts, 32768);
  static void adapt(std::uint16_t& p, unsigned bit) {
    p = static_cast<std::uint16_t>(bit == 0 ? p + ((65536 - p) >> 6) : p - (p >> 6));
  }
};

}  // namespace table_coding
}  // namespace ringfence::ptx

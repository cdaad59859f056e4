// A plain row-major tensor: dtype, shape, bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "verify/dtype.hpp"

namespace ringfence::verify {

using Shape = std::vector<std::int64_t>;

// "[96, 64]"
std::string shape_text(const Shape& shape);

// The product of the extents, 1 for an empty shape. Throws InputError where an extent is negative
// or the product, times eight bytes, does not fit in 63 bits.
std::size_t element_count(const Shape& shape);

struct Tensor {
  Dtype dtype = Dtype::bf16;
  Shape shape;                   // last index contiguous
  std::vector<std::byte> bytes;  // element_count(shape) * dtype_bytes(dtype), little endian

  Tensor() = default;
  Tensor(Dtype dtype, Shape shape);  // zeros

  std::size_t elements() const { return bytes.size() / dtype_bytes(dtype); }

  // The elements as 16-bit patterns. Throws InputError unless it is bf16 or f16.
  std::uint16_t* bits();
  const std::uint16_t* bits() const;
  // The elements as floats. Throws InputError unless dtype is f32.
  float* floats();
  const float* floats() const;

  // Row i of a 2-d tensor as it lies in memory; and its elements, Bits being those of the dtype.
  std::span<const std::byte> row_bytes(std::int64_t i) const {
    const std::size_t n = static_cast<std::size_t>(shape.back()) * dtype_bytes(dtype);
    return std::span(bytes).subspan(static_cast<std::size_t>(i) * n, n);
  }
  template <typename Bits>
  const Bits* patterns() const {
    return reinterpret_cast<const Bits*>(bytes.data());
  }
  // The element nearest to a value.
  void set(std::size_t index, double value) {
    store_pattern(dtype, encode(dtype, value), bytes.data() + index * dtype_bytes(dtype));
  }

  // Element by flat index, as double and as its bit pattern. The index must be in range.
  double value(std::size_t index) const;
  std::uint64_t pattern(std::size_t index) const;

  // First element of row i of a 2-d tensor of a 16-bit type.
  std::uint16_t* row(std::int64_t i) { return bits() + i * shape.back(); }
  const std::uint16_t* row(std::int64_t i) const { return bits() + i * shape.back(); }
};

}  // namespace ringfence::verify
